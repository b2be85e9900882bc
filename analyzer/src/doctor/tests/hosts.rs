//! Whole pages of hosts as there are many: eight NICs and eight GPUs, one port, none.

use std::fmt::Write as _;

use super::*;

/// The host of mlx5.txt eight times over: eight NICs, each with a GPU below the same PCIe switch.
pub(super) fn eight() -> String {
    let (mut all, mut interfaces, mut devices) = (String::new(), String::new(), Vec::new());
    for n in 0..8 {
        let own = |text: &str| {
            let bus = 0x3a + 0x10 * n;
            text.replace("pci0000:3a", &format!("pci0000:{bus:02x}"))
                .replace("0000:3a:", &format!("0000:{bus:02x}:"))
                .replace("0000:3b:", &format!("0000:{:02x}:", bus + 1))
                .replace("0000:3c:", &format!("0000:{:02x}:", bus + 2))
                .replace("enp59s0np0", &format!("enp{}s0np0", bus + 1))
                .replace("mlx5_0", &format!("mlx5_{n}"))
                .replace("uverbs0", &format!("uverbs{n}"))
                .replace(".0.1 <<", &format!(".{n}.1 <<"))
                .replace("/qp.0 <<", &format!("/qp.{n} <<"))
                .replace("/qp_counters.0 <<", &format!("/qp_counters.{n} <<"))
        };
        let _ = writeln!(all, "{}\n[]", own(MLX5));
        let _ = writeln!(interfaces, "{} {} physical 9000 up", own("enp59s0np0"), n + 2);
        devices.push(format!("1 u32 {n}\n2 text mlx5_{n}\n5 text 28.42.1000\n14 u8 1\n67 text roce\n"));
    }
    let settings = "NCCL_IB_HCA=mlx5\u{0}NCCL_SOCKET_IFNAME=eth0\u{0}";
    let hex: Vec<String> = settings.bytes().map(|byte| format!("{byte:02x}")).collect();
    for n in 0..8 {
        let pid = 4711 + n;
        let _ = writeln!(all, "proc/{pid}/environ hex {}\nproc/{pid}/comm = python3", hex.join(" "));
        let _ = writeln!(all, "proc/{pid}/ns/net -> net:[4026531840]\nproc/{pid}/cgroup = 0::/x");
    }
    let devices = devices.join("---\n");
    format!(
        "{all}answers/interfaces <<\nlo 1 loopback 65536 up\n{interfaces}eth0 20 physical 1500 up\n>>\nanswers/rdma/devices <<\n{devices}>>\n"
    )
}

/// Half of the notification points are off, and one port is down.
fn eight_with_faults() -> Page {
    let mut faults = format!("{DEVICE}/ports/1/state = 1: DOWN\n");
    for n in 0..4 {
        let _ = writeln!(faults, "sys/class/net/enp{}s0np0/ecn/roce_np/enable/3 = 0", 59 + 16 * n);
    }
    page(&eight(), &faults)
}

#[test]
fn one_fault_of_many_ports_is_one_verdict_with_their_names() {
    let page = eight_with_faults();
    let said = text::text(&page, false, 120);
    assert!(said.starts_with("rocescope doctor on Linux 6.15.4: 3 warnings\n"), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "ecn.notification_point enp59s0np0, enp75s0np0, enp91s0np0, enp107s0np0: disabled on priority 3",
        "of the first subject",
        "nccl.traffic_class python3 4711, python3 4712,",
        "mlx5_0/1, mlx5_1/1, mlx5_2/1, mlx5_3/1, mlx5_4/1, mlx5_5/1, mlx5_6/1, mlx5_7/1, packets: no",
        "port.state mlx5_1/1 +6 ACTIVE",
        // Differences are reported for each NIC: the GPU that it is near.
        "gpu.nic NVIDIA GPU 0000:9c:00.0 mlx5_6, below the same PCIe switch",
    ] {
        assert!(words.contains(part), "{part} in {said}");
    }
    let off = |text: &str| text.matches("roce_np/enable/3").count();
    assert_eq!(off(&said), 1, "{said}");
    assert!(said.lines().count() < 140, "{said}");
    // Each by itself where that is asked for, and in JSON.
    let verbose = text::text(&page, true, 120);
    assert_eq!(off(&verbose), 4, "{verbose}");
    assert!(!verbose.contains("of the first subject") && !verbose.contains(" +7"), "{verbose}");
    let points = page.checks.iter().filter(|c| c.id == "ecn.notification_point");
    assert_eq!(points.filter(|c| c.verdict == Status::Warning).count(), 4);
}

#[test]
fn pages_fit_the_terminal() {
    let none = "[answers]\ninterfaces <<\nlo 1 loopback 65536 up\neth0 2 physical 1500 up\neth1 3 physical 1500 down\n>>";
    let pages = [eight_with_faults(), page(BNXT_RE, ""), page(IRDMA, ""), page(RXE, ""), page(none, "")];
    for (columns, expected) in [(200, 120), (120, 120), (80, 80), (20, 60)] {
        for (page, verbose) in pages.iter().flat_map(|page| [(page, false), (page, true)]) {
            let text = text::text(page, verbose, columns);
            // Commands on lines of their own are for copying, and a path has no place to break.
            let long = |line: &&str| {
                let last = line.split_whitespace().next_back().unwrap_or_default();
                line.chars().count() > expected && !line.starts_with("    $ ") && !last.contains('/')
            };
            let lines: Vec<&str> = text.lines().filter(long).collect();
            assert!(lines.is_empty(), "{columns}: {lines:#?}");
            let heading = text.lines().find(|line| line.starts_with("── ")).unwrap();
            assert_eq!(heading.chars().count(), expected);
        }
    }
    // One that is down is no place to look for packets.
    let text = text::text(&pages[4], false, 80);
    assert!(text.contains("Without RDMA: eth1 (physical, down)") && !text.contains("-i NAME"), "{text}");
}
