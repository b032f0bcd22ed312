package controlplane

import (
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/tier"
)

// TestFormerVersionsAreForgotten: former versions of objects are not kept in memory for long.
func TestFormerVersionsAreForgotten(t *testing.T) {
	tier.OnlyLong(t, "it waits for minutes; what it guards is memory alone")
	cp := server(t)
	for deadline := time.Now().Add(5 * time.Minute); cp.etcd.Server.KV().FirstRev() <= 0; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("etcd knows every version that there was")
		}
	}
}
