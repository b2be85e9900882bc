//! Varies a scenario's traffic where its truth does not depend on it, by a seed, so that no rule can be fitted to
//! fixed values.

use super::frame::Addr;
use super::qp::{Ports, Settings};
use rocescope_common::random::{Random, mix};

/// Variations. The default is the scenario as written.
#[derive(Clone, Debug)]
pub(crate) struct Vary {
    /// Factors of all rates (numerator, denominator), and of cable delays.
    rate: (u64, u64),
    pub(crate) delay: u64,
    /// The first three bytes of addresses, and the first queue pair number.
    net: [u8; 3],
    pub(crate) first_qpn: u32,
    /// IPv4 identifications are incremented, unless the scenario sets this.
    pub(crate) idents: bool,
    pub(crate) reaction_ns: u64,
    /// Settings of connections for which a scenario uses the default.
    settings: Settings,
    /// Seed of first PSNs; 0 for that of the settings.
    psns: u64,
}

impl Default for Vary {
    fn default() -> Self {
        Self {
            rate: (1, 1),
            delay: 1,
            net: [10, 0, 0],
            first_qpn: 0x100,
            idents: false,
            reaction_ns: 800,
            settings: Settings::default(),
            psns: 0,
        }
    }
}

impl Vary {
    /// The variations for a seed and a kind of scenario.
    pub(crate) fn of(seed: u64, kind: &str) -> Self {
        let mut rng = Random::new(mix(seed));
        let usual = Settings::default();
        let mut one_of = |all: [u64; 4]| all[rng.below(4) as usize];
        let mut vary = Self {
            rate: (one_of([2, 3, 4, 6]), 4),
            delay: one_of([1, 1, 2, 4]),
            net: [
                one_of([10, 172, 192, 100]) as u8,
                one_of([0, 16, 168, 64]) as u8,
                one_of([0, 1, 7, 200]) as u8,
            ],
            first_qpn: one_of([0x11, 0x4A00, 0x2_0000, 0xFF_0000]) as u32,
            idents: one_of([0, 0, 1, 1]) == 1,
            reaction_ns: one_of([500, 800, 1_500, 4_000]),
            settings: Settings {
                mtu: one_of([1024, 2048, 4096, 4096]) as u32,
                window: one_of([64, 128, 128, 256]),
                ack_every: one_of([8, 32, 32, 1_000_000]),
                coalesce: one_of([1, 1, 2, 4]) as u32,
                ports: Ports::One(one_of([49_152, 50_000, 57_345, 65_535]) as u16),
                ..usual
            },
            psns: rng.bits() | 1,
        };
        // Faults of the path MTU depend on it.
        if kind == "mtu" {
            vary.settings.mtu = Settings::default().mtu;
        }
        vary
    }

    /// The address of a host.
    pub(crate) fn addr(&self, number: u8) -> Addr {
        let [a, b, c] = self.net;
        Addr::V4([a, b, c, number])
    }

    /// Bits per second.
    pub(crate) fn rate(&self, bits_per_s: u64) -> u64 {
        bits_per_s / self.rate.1 * self.rate.0
    }

    /// Settings of the connection with this number.
    pub(crate) fn settings(&self, of: &Settings, number: u64) -> Settings {
        let usual = Settings::default();
        let mut set = of.clone();
        set.bits_per_s = self.rate(set.bits_per_s);
        if set.mtu == usual.mtu {
            set.mtu = self.settings.mtu;
        }
        if set.window == usual.window {
            set.window = self.settings.window;
        }
        if set.ack_every == usual.ack_every {
            set.ack_every = self.settings.ack_every;
        }
        if set.coalesce == usual.coalesce {
            set.coalesce = self.settings.coalesce;
        }
        if set.ports == usual.ports {
            set.ports = self.settings.ports;
        }
        if self.psns != 0 && set.first_psn == usual.first_psn {
            set.first_psn = mix(self.psns ^ number) & 0xFF_FFFF;
        }
        set
    }
}
