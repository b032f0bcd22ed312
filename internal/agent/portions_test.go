package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// TestPortions: what was counted is sent in portions that the controller takes, and nothing of it
// twice or never.
func TestPortions(t *testing.T) {
	t.Parallel()
	all := map[countedRule]v1beta2.TrafficStats{}
	for p := range 300 {
		ref := v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: strings.Repeat("n", 63), Name: fmt.Sprint(p, strings.Repeat("p", 240)), UID: types.UID(fmt.Sprintf("%036d", p))}
		for r := range 20 {
			all[countedRule{ref, fmt.Sprint(r, strings.Repeat("r", 60))}] = v1beta2.TrafficStats{Packets: 1 << 62, Bytes: 1 << 62, Sessions: 1 << 62}
		}
	}
	sum := map[countedRule]v1beta2.TrafficStats{}
	parts := portions(all)
	for _, p := range parts {
		for key := range p {
			if _, twice := sum[key]; twice {
				t.Fatalf("%v is sent twice", key)
			}
		}
		maps.Copy(sum, p)
		raw, err := json.Marshal(summary("namespace/host", p))
		if err != nil || len(raw) > 256<<10 {
			t.Errorf("a portion of %d bytes, %v", len(raw), err)
		}
	}
	if !maps.Equal(sum, all) || len(parts) < 4 || len(parts) > 20 {
		t.Errorf("%d of %d rules in %d portions", len(sum), len(all), len(parts))
	}
	if len(portions(nil)) != 0 {
		t.Error("nothing is sent")
	}
}
