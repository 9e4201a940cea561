import fixtures
from nova.compute import pci_placement_translator as ppt


def fixture():
    orig = ppt.PciResourceProvider.update_provider_tree

    def update_provider_tree(rp, tree, parent, usage):
        fresh = not tree.exists(rp.name) or rp.resource_class not in tree.data(rp.name).inventory
        orig_get = rp._get_inventories

        def _get_inventories():
            inv = orig_get()
            if fresh and rp.is_otu and rp.parent_dev:
                inv[rp.resource_class]["reserved"] = rp.total
            return inv

        rp._get_inventories = _get_inventories
        return orig(rp, tree, parent, usage)

    return fixtures.MonkeyPatch(
        "nova.compute.pci_placement_translator.PciResourceProvider.update_provider_tree",
        update_provider_tree,
    )
