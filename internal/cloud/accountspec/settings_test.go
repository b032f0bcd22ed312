package accountspec

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestPropagationSetting: an account that says nothing has the default, and none waits longer than
// it may say.
func TestPropagationSetting(t *testing.T) {
	for _, c := range []struct {
		given *int32
		want  time.Duration
	}{{nil, 3 * time.Second}, {ptr.To[int32](0), 0}, {ptr.To[int32](5), 5 * time.Second}, {ptr.To[int32](300), 5 * time.Minute}, {ptr.To[int32](-1), 0}, {ptr.To[int32](1 << 30), 5 * time.Minute}} {
		got := SettingsOf(&v1alpha1.CloudProviderAccount{Spec: v1alpha1.CloudProviderAccountSpec{PropagationSeconds: c.given}}, 3*time.Second).Propagation
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.given, got, c.want)
		}
	}
}
