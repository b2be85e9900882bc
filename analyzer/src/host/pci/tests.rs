use super::*;
use crate::host::read::testing::tree;

const NIC: &str = "0000:3b:00.0";

fn read(files: &[(&str, &str)], address: &str) -> (PciDevice, usize) {
    let tree = tree(files);
    let mut unread = UnreadReasons::new();
    let device = PciDevice::read(&HostRoot::at(tree.path()), address, &mut unread);
    (device, unread.into_reasons().len())
}

#[test]
fn a_device_is_read_with_the_bridges_above_it() {
    let at = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";
    let paths =
        ["vendor", "device", "numa_node", "current_link_speed", "max_link_speed", "current_link_width"]
            .map(|file| format!("{at}/{file}"));
    let (device, unread) = read(
        &[
            ("sys/bus/pci/devices/0000:3b:00.0", "-> ../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
            (&paths[0], "0x15b3\n"),
            (&paths[1], "0x1021\n"),
            (&paths[2], "1\n"),
            (&paths[3], "16.0 GT/s PCIe\n"),
            (&paths[4], "32.0 GT/s PCIe\n"),
            (&paths[5], "16\n"),
        ],
        NIC,
    );
    assert_eq!(device.bridges, ["0000:3a:00.0"]);
    assert_eq!((device.id, device.numa_node), (Some((0x15b3, 0x1021)), Some(1)));
    assert_eq!((device.link.speed, device.link.width, device.link.max_width), (Some(16.0), Some(16), None));
    let mbps = device.link.mbps().unwrap();
    assert!((mbps - 252_061.5).abs() < 1.0, "{mbps}");
    assert_eq!(unread, 1, "max_link_width alone is missing");
}

#[test]
fn nonsense_is_unknown() {
    let (device, unread) = read(
        &[
            ("sys/bus/pci/devices/0000:3b:00.0/current_link_speed", "Unknown\n"),
            ("sys/bus/pci/devices/0000:3b:00.0/current_link_width", "255\n"),
            ("sys/bus/pci/devices/0000:3b:00.0/numa_node", "-1\n"),
        ],
        NIC,
    );
    assert_eq!(device, PciDevice { address: NIC.into(), ..PciDevice::default() });
    assert!(unread > 2);
}

#[test]
fn a_device_that_belongs_to_no_node_is_no_failure() {
    for (text, node, failures) in
        [("1\n", Some(1), 0), ("-1\n", None, 0), ("-2\n", None, 1), ("x\n", None, 1)]
    {
        let path = format!("sys/bus/pci/devices/{NIC}/numa_node");
        let (device, unread) = read(&[(&path, text)], NIC);
        // Only this one of its nine files exists.
        let (_, without) = read(&[], NIC);
        assert_eq!((device.numa_node, unread), (node, without - 1 + failures), "{text}");
    }
}

#[test]
fn distances_follow_bridges_and_nodes() {
    let device = |bridges: &[&str], node| PciDevice {
        bridges: bridges.iter().map(|&b| b.to_owned()).collect(),
        numa_node: node,
        ..PciDevice::default()
    };
    let nic = device(&["0000:3b:01.0", "0000:3a:00.0"], Some(0));
    assert_eq!(nic.distance(&device(&["0000:3b:02.0", "0000:3a:00.0"], Some(0))), Distance::Switch);
    assert_eq!(nic.distance(&device(&["0000:5a:00.0"], Some(0))), Distance::Node);
    assert_eq!(nic.distance(&device(&["0000:da:00.0"], Some(1))), Distance::Far);
    assert_eq!(nic.distance(&device(&["0000:da:00.0"], None)), Distance::Unknown);
}

#[test]
fn acs_is_found_among_other_capabilities() {
    let mut config = vec![0; 4096];
    // Advanced error reporting, then ACS at 0x148.
    config[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x02, 0x14]);
    config[0x102..0x104].copy_from_slice(&(0x148u16 << 4 | 2).to_le_bytes());
    config[0x148..0x14a].copy_from_slice(&CAP_ACS.to_le_bytes());
    config[0x14e..0x150].copy_from_slice(&0x1du16.to_le_bytes());
    assert_eq!(acs_control(&config), Some(0x1d));
    // A circular list ends.
    config[0x148] = 0;
    config[0x14a..0x14c].copy_from_slice(&(0x100u16 << 4).to_le_bytes());
    assert_eq!(acs_control(&config), None);
    for end in [0, 64, 256, 0x14f] {
        assert_eq!(acs_control(&config[..end]), None);
    }
}

#[test]
fn addresses() {
    assert!(is_address("0000:3b:00.1") && is_address("10000:e1:00.0"));
    assert!(!is_address("pci0000:3a") && !is_address("0000:3b:00") && !is_address("a:b:c.d:e"));
}
