//! The fields of INFO about bytes in both directions: of all together, of replication, and of slots that move.

use super::section_text::Text;
use engine::stats::metrics::Totals;

/// `totals` since the start, and `rates` in a second.
pub(super) fn put(text: &mut Text, totals: &Totals, rates: &Totals) {
    let input = |it: &Totals| it.input_bytes + it.replication_input + it.slot_import;
    let output = |it: &Totals| it.output_bytes + it.replication_output + it.slot_export;
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    text.field("total_net_input_bytes", input(totals));
    text.field("total_net_output_bytes", output(totals));
    text.field("total_net_repl_input_bytes", totals.replication_input);
    text.field("total_net_repl_output_bytes", totals.replication_output);
    text.field("total_net_cluster_slot_import_bytes", totals.slot_import);
    text.field("total_net_cluster_slot_export_bytes", totals.slot_export);
    text.field("instantaneous_input_kbps", kilobytes(input(rates)));
    text.field("instantaneous_output_kbps", kilobytes(output(rates)));
    text.field("instantaneous_input_repl_kbps", kilobytes(rates.replication_input));
    text.field("instantaneous_output_repl_kbps", kilobytes(rates.replication_output));
}
