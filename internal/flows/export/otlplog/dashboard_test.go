package otlplog

import (
	"encoding/json"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/flows/live"
)

// TestDashboardAsksForWhatIsThere: every attribute and column that the dashboard for ClickHouse
// names is one that records have, as the exporter of OpenTelemetry's collector writes them.
func TestDashboardAsksForWhatIsThere(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := live.Owner{Kind: "Pod", Namespace: "shop", Name: "web", Enforcer: "worker"}
	cause := live.Cause{Cause: "Policy", Type: "AntreaNetworkPolicy", Namespace: "shop", Name: "p", UID: "u", Direction: "In", Rule: "r", Why: "w"}
	request := Request([]*live.Entry{{
		First: at, Last: at, Enforcer: "worker", Direction: "In", Client: netip.MustParseAddr("10.0.0.1"), Server: netip.MustParseAddr("10.0.0.2"), ClientOwner: pod, ServerOwner: pod,
		Asked: netip.MustParseAddrPort("10.96.0.1:80"), AskedOwner: live.Owner{Kind: "Service", Namespace: "shop", Name: "web"}, Protocol: 6, Port: 80, Verdict: "Allow", Differs: "Leaks",
		Cause: cause, Before: cause, Connections: 1,
	}}, "v", "c", at)
	scope := request.ResourceLogs[0].ScopeLogs[0]
	has := map[string]bool{}
	for _, a := range scope.LogRecords[0].Attributes {
		has[a.Key] = true
	}
	raw, err := os.ReadFile("../../../../docs/examples/flows-clickhouse/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RawSQL string }
		}
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	attribute, columns := regexp.MustCompile(`LogAttributes\['([^']*)'\]`), regexp.MustCompile(`\b(Timestamp|ServiceName|ScopeName|LogAttributes)\b`)
	asked := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, m := range attribute.FindAllStringSubmatch(target.RawSQL, -1) {
				if asked++; !has[m[1]] {
					t.Errorf("%s: records have no %s", p.Title, m[1])
				}
			}
			// What is left of capitals are columns of the exporter's table.
			rest := columns.ReplaceAllString(attribute.ReplaceAllString(target.RawSQL, ""), "")
			for _, word := range regexp.MustCompile(`\b[A-Z][a-z]+[A-Za-z]*\b`).FindAllString(regexp.MustCompile(`'[^']*'|toUInt64OrZero|\$__\w+`).ReplaceAllString(rest, ""), -1) {
				t.Errorf("%s: what is %s?", p.Title, word)
			}
			if !strings.Contains(target.RawSQL, "ScopeName = '"+scope.Scope.Name+"'") || !strings.Contains(target.RawSQL, "$__timeFilter(Timestamp)") {
				t.Errorf("%s: not of flows, or not of the time that is looked at", p.Title)
			}
		}
	}
	if asked < 30 {
		t.Errorf("only %d attributes are asked for", asked)
	}
}
