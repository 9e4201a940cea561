"""What in Nova the patch stands on, by file: a change of any of these may silence it.

Not only what is replaced. Also whoever calls it, decides which provider and tags it gets, tells it
what Placement holds, and carries its answer to Placement.
"""

from __future__ import annotations

WATCHED: dict[str, list[str]] = {
    # Names nova.compute.manager, whose import is where the patch is put in.
    "nova/service.py": ["Service.create", "Service.__init__"],
    # Which devices are one-time-use, and that this is only believed with report_in_placement.
    "nova/pci/devspec.py": [
        "PciDeviceSpec.__init__",
        "PciDeviceSpec._init_dev_details",
        "PciDeviceSpec._normalize_device_spec_tag",
        "PciDeviceSpec.get_tags",
    ],
    # Which devices a claim may take, and which it takes.
    "nova/pci/manager.py": ["PciDevTracker.claim_instance", "PciDevTracker._claim_instance"],
    "nova/pci/stats.py": [
        "PciDeviceStats.add_device",
        "PciDeviceStats._create_pool_keys_from_dev",
        "PciDeviceStats.populate_pools_metadata_from_assigned_devices",
        "PciDeviceStats.consume_requests",
        "PciDeviceStats._allocate_devs",
        "PciDeviceStats._apply_request",
        "PciDeviceStats._filter_pools",
        "PciDeviceStats._filter_pools_based_on_placement_allocation",
        "PciDeviceStats._get_rp_uuids_for_request",
        "PciDeviceStats.apply_requests",
        "PciDeviceStats.support_requests",
    ],
    "nova/compute/claims.py": ["Claim._claim_test", "Claim._test_pci", "MoveClaim.__init__"],
    # That a claimed device carries its instance before Placement is told.
    "nova/objects/pci_device.py": ["PciDevice.claim", "PciDevice.allocate"],
    # Devices to providers. The heart of it.
    "nova/compute/pci_placement_translator.py": [
        "_get_traits_for_dev",
        "_get_rc_for_dev",
        "PciResourceProvider.__init__",
        "PciResourceProvider.devs",
        "PciResourceProvider.total",
        "PciResourceProvider.to_be_deleted",
        "PciResourceProvider.add_child",
        "PciResourceProvider.add_parent",
        "PciResourceProvider._get_inventories",
        "PciResourceProvider._handle_one_time_use",
        "PciResourceProvider._adjust_for_removals_and_held_devices",
        "PciResourceProvider.update_provider_tree",
        "PlacementView._get_rp_name_for_address",
        "PlacementView._ensure_rp",
        "PlacementView._ensure_rp_for_dev",
        "PlacementView._add_dev",
        "PlacementView._add_parent",
        "PlacementView._add_child",
        "PlacementView.process_dev",
        "PlacementView._remove_managed_rps_from_tree_not_in_view",
        "PlacementView.update_provider_tree",
        "update_provider_tree_for_pci",
    ],
    # When Placement is told: at the start, in periodics, and in claims before a guest starts.
    "nova/compute/resource_tracker.py": [
        "ResourceTracker._invalidate_pci_in_placement_cached_rps",
        "ResourceTracker.instance_claim",
        "ResourceTracker.rebuild_claim",
        "ResourceTracker.resize_claim",
        "ResourceTracker._move_claim",
        "ResourceTracker._claim_resources",
        "ResourceTracker._update_to_placement",
        "ResourceTracker._update",
    ],
    # Nova's picture of Placement's providers, where "new" is read.
    "nova/compute/provider_tree.py": [
        "_Provider.data",
        "_Provider.has_inventory_changed",
        "_Provider.update_inventory",
        "ProviderTree.exists",
        "ProviderTree.data",
        "ProviderTree.new_child",
        "ProviderTree.remove",
        "ProviderTree.update_inventory",
        "ProviderTree.update_traits",
        "ProviderTree.add_traits",
    ],
    # How the picture is drawn, and how what differs from it goes to Placement.
    "nova/scheduler/client/report.py": [
        "SchedulerReportClient._associations_stale",
        "SchedulerReportClient._delete_provider",
        "SchedulerReportClient._ensure_resource_provider",
        "SchedulerReportClient._refresh_and_get_inventory",
        "SchedulerReportClient._refresh_associations",
        "SchedulerReportClient._reshape",
        "SchedulerReportClient._set_up_and_do_reshape",
        "SchedulerReportClient.get_provider_subtree_and_ensure_root",
        "SchedulerReportClient.get_provider_tree_and_ensure_root",
        "SchedulerReportClient.invalidate_resource_provider",
        "SchedulerReportClient.set_inventory_for_provider",
        "SchedulerReportClient.set_traits_for_provider",
        "SchedulerReportClient.update_from_provider_tree",
    ],
}
