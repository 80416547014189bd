package dev.thimble.sample;

import android.app.Activity;
import android.content.Intent;
import android.net.Uri;
import android.os.Bundle;
import android.view.View;
import android.widget.Button;
import android.widget.EditText;
import android.widget.LinearLayout;
import android.widget.ScrollView;
import android.widget.TextView;
import dev.thimble.Stats;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Locale;

/** One screen: choose a .pte, talk to it, stop it. */
public final class MainActivity extends Activity implements Talk.Listener {
  private static final int CHOOSE = 1;
  private static final String MODEL = "model.pte";

  private Talk talk;
  private TextView text;
  private TextView status;
  private EditText message;
  private Button send;
  private Button stop;

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    talk = new Talk(this);
    setContentView(createScreen());
    File model = new File(getFilesDir(), MODEL);
    if (model.exists()) {
      talk.load(model.getPath());
    } else {
      status.setText("Choose a model.pte that was exported with --delegate cpu.");
    }
  }

  @Override
  protected void onDestroy() {
    talk.close();
    super.onDestroy();
  }

  private View createScreen() {
    status = new TextView(this);
    text = new TextView(this);
    text.setTextIsSelectable(true);
    message = new EditText(this);
    message.setHint("Message");
    send = createButton("Send", this::send);
    stop = createButton("Stop", () -> talk.stop());
    setAnswering(false);
    send.setEnabled(false); // until a model is loaded

    LinearLayout buttons = new LinearLayout(this);
    for (Button button : new Button[] {createButton("Model", this::choose), stop, send}) {
      buttons.addView(button, new LinearLayout.LayoutParams(0, -2, 1));
    }
    ScrollView scroll = new ScrollView(this);
    scroll.addView(text);
    LinearLayout screen = new LinearLayout(this);
    screen.setOrientation(LinearLayout.VERTICAL);
    screen.setFitsSystemWindows(true);
    screen.setPadding(32, 32, 32, 32);
    screen.addView(status);
    screen.addView(scroll, new LinearLayout.LayoutParams(-1, 0, 1));
    screen.addView(message);
    screen.addView(buttons);
    return screen;
  }

  private Button createButton(String label, Runnable action) {
    Button button = new Button(this);
    button.setText(label);
    button.setOnClickListener(view -> action.run());
    return button;
  }

  private void choose() {
    Intent intent = new Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE);
    startActivityForResult(intent.setType("*/*"), CHOOSE);
  }

  @Override
  protected void onActivityResult(int request, int result, Intent data) {
    super.onActivityResult(request, result, data);
    if (request != CHOOSE || result != RESULT_OK || data == null) return;
    Uri chosen = data.getData();
    status.setText("Copying ...");
    send.setEnabled(false);
    new Thread(() -> copy(chosen)).start();
  }

  /** A model is mapped from a file, which a document need not be. */
  private void copy(Uri chosen) {
    File part = new File(getFilesDir(), MODEL + ".part");
    File model = new File(getFilesDir(), MODEL);
    try (InputStream in = getContentResolver().openInputStream(chosen);
        OutputStream out = new FileOutputStream(part)) {
      byte[] buffer = new byte[1 << 20];
      for (int size = in.read(buffer); size >= 0; size = in.read(buffer)) {
        out.write(buffer, 0, size);
      }
      out.close();
      if (!part.renameTo(model)) throw new IOException("cannot rename " + part);
      talk.load(model.getPath());
    } catch (IOException e) {
      onError("cannot copy the model: " + e.getMessage());
    }
  }

  private void send() {
    String said = message.getText().toString();
    if (said.isEmpty()) return;
    message.setText("");
    text.append((text.length() == 0 ? "" : "\n\n") + "> " + said + "\n\n");
    setAnswering(true);
    talk.say(said);
  }

  private void setAnswering(boolean answering) {
    send.setEnabled(!answering);
    stop.setEnabled(answering);
  }

  @Override
  public void onLoaded(String name) {
    runOnUiThread(
        () -> {
          status.setText(name);
          setAnswering(false);
        });
  }

  @Override
  public void onText(String piece) {
    runOnUiThread(() -> text.append(piece));
  }

  @Override
  public void onEnd(Stats stats) {
    double rate = stats.decodeTokensPerSecond();
    runOnUiThread(
        () -> {
          status.setText(String.format(Locale.ROOT, "%.1f tokens a second", rate));
          setAnswering(false);
        });
  }

  @Override
  public void onError(String sentence) {
    runOnUiThread(
        () -> {
          status.setText(sentence);
          setAnswering(false);
        });
  }
}
