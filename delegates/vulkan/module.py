"""What Vulkan takes of any module."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.export import ExportedProgram

from delegates.contract import ModulePart
from delegates.passes.weights import weights_not_copied
from delegates.vulkan.lower import root_logger_quiet


@contextmanager
def module_part(program: ExportedProgram) -> Iterator[ModulePart]:
    """Provides how Vulkan takes what it supports."""
    with root_logger_quiet():
        from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
        from executorch.backends.vulkan.vulkan_preprocess import VulkanBackend

        with weights_not_copied(VulkanBackend):
            partitioner = VulkanPartitioner({"require_dynamic_shapes": True})
            yield ModulePart(VulkanBackend.__name__, partitioner)
