package flowlog

import (
	"fmt"
	"os"
	"testing"
)

// TestDocumentedShape reads a file with all that Microsoft's page on the format shows
// (https://learn.microsoft.com/azure/network-watcher/vnet-flow-logs-overview#sample-log-record):
// several groups of several rules, every state, both families, drops because of encryption, which
// no group and rule has decided, and the fields about the log itself. The values are ours.
func TestDocumentedShape(t *testing.T) {
	raw, err := os.ReadFile("testdata/documented.json")
	if err != nil {
		t.Fatal(err)
	}
	records, report, err := read(string(raw))
	if err != nil || report.Bad != 0 {
		t.Fatal(err, report)
	}
	want := []string{
		"egress 10.1.1.4:50001 > 203.0.113.10:443 accepted DefaultRule_AllowInternetOutBound fresh=true 0/0",
		"egress 10.1.1.4:50001 > 203.0.113.10:443 accepted DefaultRule_AllowInternetOutBound fresh=false 767/1580",
		"egress 10.1.1.4:50002 > 203.0.113.20:443 accepted DefaultRule_AllowInternetOutBound fresh=false 3000/9000",
		"ingress 198.51.100.9:60000 > 10.1.1.4:5432 denied UserRule_block-databases fresh=true 0/0",
		"ingress 198.51.100.9:60001 > 10.1.1.4:1433 denied UserRule_block-databases fresh=true 0/0",
		"ingress 2001:db8::9:60002 > 2001:db8:1::4:443 accepted Internet fresh=true 0/0",
		"ingress 10.1.1.5:60003 > 10.1.1.4:80 denied unspecified fresh=true NX_NOT_ACCEPTED 0/0",
	}
	for i, r := range records {
		verdict, refused := "denied", ""
		if r.Accepted {
			verdict = "accepted"
		}
		if r.Refused != "" {
			refused = r.Refused + " "
		}
		got := fmt.Sprintf("%s %s:%d > %s:%d %s %s fresh=%t %s%d/%d", r.Direction, r.Source, r.SourcePort, r.Destination, r.DestinationPort, verdict, r.Rule, r.Fresh, refused, r.Bytes, r.ReplyBytes)
		if i >= len(want) || got != want[i] || r.Interface != "00:22:48:0a:0b:0c" {
			t.Errorf("record %d of %s: %s", i, r.Interface, got)
		}
	}
	if len(records) != len(want) {
		t.Errorf("%d records, want %d", len(records), len(want))
	}
}
