import SwiftUI
import Thimble
import UniformTypeIdentifiers

/// One screen: choose a .pte, talk to it, stop it.
@main
struct SampleApp: App {
    var body: some Scene {
        WindowGroup { TalkView() }
    }
}

struct TalkView: View {
    @StateObject private var talk = Talk()
    @State private var message = ""
    @State private var choosing = false

    var body: some View {
        VStack(alignment: .leading, spacing: 12) {
            Text(talk.status).font(.footnote).foregroundStyle(.secondary)
            ScrollView {
                Text(talk.text)
                    .textSelection(.enabled)
                    .frame(maxWidth: .infinity, alignment: .leading)
            }
            HStack {
                TextField("Message", text: $message, axis: .vertical)
                    .textFieldStyle(.roundedBorder)
                    .onSubmit(send)
                if talk.answering {
                    Button("Stop", action: talk.stop)
                } else {
                    Button("Send", action: send).disabled(!talk.ready || message.isEmpty)
                }
            }
            Button("Choose a model") { choosing = true }.disabled(talk.answering)
        }
        .padding()
        .fileImporter(isPresented: $choosing, allowedContentTypes: [.data]) { result in
            if case .success(let url) = result { talk.load(url) }
        }
    }

    private func send() {
        guard talk.ready, !message.isEmpty else { return }
        talk.say(message)
        message = ""
    }
}

/// A model, and a conversation with it. A model without a chat template continues what is written.
@MainActor
final class Talk: ObservableObject {
    @Published private(set) var text = ""
    @Published private(set) var status = "Choose a model.pte that was exported with --delegate cpu."
    @Published private(set) var answering = false
    @Published private(set) var ready = false

    private var runner: Runner?
    private var chat: Chat?
    private var work: Task<Void, Never>?

    /// A model is mapped from a file, so a chosen one is copied to where it stays.
    func load(_ chosen: URL) {
        status = "Loading ..."
        ready = false
        Task {
            do {
                let model = URL.documentsDirectory.appending(path: "model.pte")
                try await Talk.copy(chosen, to: model)
                let loaded = try await Runner(path: model.path)
                chat = try? await Chat(loaded)  // nil: the file has no chat template
                runner = loaded
                status = chosen.lastPathComponent
                ready = true
            } catch {
                status = error.localizedDescription
            }
        }
    }

    func say(_ message: String) {
        guard let runner else { return }
        var options = AnswerOptions()
        options.temperature = 0.7
        options.topP = 0.95
        let answer = chat?.say(message, options: options)
            ?? runner.generate(message, options: options)
        text += (text.isEmpty ? "" : "\n\n") + "> \(message)\n\n"
        answering = true
        work = Task {
            do {
                for try await piece in answer { text += piece }
                let rate = try await runner.stats().decodeTokensPerSecond
                status = String(format: "%.1f tokens a second", rate)
            } catch is CancellationError {
                status = "Stopped."
            } catch {
                status = error.localizedDescription
            }
            answering = false
        }
    }

    /// Ends the answer; the conversation keeps what there is of it.
    func stop() {
        work?.cancel()
    }

    private nonisolated static func copy(_ chosen: URL, to model: URL) async throws {
        let scoped = chosen.startAccessingSecurityScopedResource()
        defer { if scoped { chosen.stopAccessingSecurityScopedResource() } }
        let part = model.appendingPathExtension("part")
        let files = FileManager.default
        try? files.removeItem(at: part)
        try files.copyItem(at: chosen, to: part)
        _ = try files.replaceItemAt(model, withItemAt: part)
    }
}
