//! DSCPs of each kind of packet, link by link, of all flows of a reading.

use super::{Extra, Flows, LinkSample};
use crate::metrics::marking::{self, ByDscp, Marked};
use crate::util::map::Map;

/// The counts by link; `None` when some packets are only known without their DSCP, or found the flow table full.
pub fn by_link(
    links: &[LinkSample],
    flows: &Flows,
    extra: &Map<u32, Extra>,
    retired: impl IntoIterator<Item = (u16, ByDscp)>,
) -> Option<Vec<ByDscp>> {
    if links.iter().any(|link| link.extra_full + link.flow_table_full.packets > 0) {
        return None;
    }
    let mut all = vec![[Marked::default(); 64]; links.len()];
    for (link, gone) in retired {
        let Some(link) = all.get_mut(usize::from(link)) else { continue };
        for (sum, gone) in link.iter_mut().zip(gone) {
            sum.data_packets += gone.data_packets;
            sum.data_bytes += gone.data_bytes;
            sum.ack_packets += gone.ack_packets;
            sum.cnp_packets += gone.cnp_packets;
        }
    }
    for flow in flows {
        if let Some(link) = all.get_mut(usize::from(flow.key.link)) {
            marking::add(link, &flow.stats, extra.get(&flow.slot));
        }
    }
    Some(all)
}
