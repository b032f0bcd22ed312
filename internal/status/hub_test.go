package status

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestHub: processes of a hub that do not answer need a person, and so does that nothing is told of
// them; nothing is said where there is one process alone, and what nobody can read is told.
func TestHub(t *testing.T) {
	const three = `{"at":"AT","processes":[{"name":"first","peer":"10.0.0.1:2380","counts":true,"answers":true},{"name":"second","peer":"10.0.0.2:2380","counts":true,"answers":true},
		{"name":"third","peer":"10.0.0.3:2380","counts":true,"answers":ANSWERS},{"name":"","peer":"10.0.0.4:2380","counts":false,"answers":ANSWERS}]}`
	text := func(ago time.Duration, answers string) string {
		return strings.NewReplacer("AT", noon.Add(-ago).UTC().Format(time.RFC3339), "ANSWERS", answers).Replace(three)
	}
	for name, c := range map[string]struct{ text, hub, attention, notRead string }{
		"well":     {text(0, "true"), "3 of 3 answer, and 2 are needed", "", ""},
		"one away": {text(time.Minute, "false"), "2 of 3 answer, and 2 are needed; away: third, 10.0.0.4:2380", "ProcessAway", ""},
		"silent":   {text(time.Hour, "true"), "3 of 3 answer, and 2 are needed", "NotTold", ""},
		"nonsense": {"{", "", "", "kube-system/nephele-hub"},
		"nobody":   {`{"processes":[]}`, "", "", "0 processes"},
		"many":     {`{"processes":[` + strings.Repeat("{},", 20) + `{}]}`, "", "", "21 processes"},
		"long":     {`{"processes":[{"name":"` + strings.Repeat("x", 301) + `"}]}`, "", "", "too long"},
		"none":     {"", "", "", ""},
	} {
		all := healthy()
		if name != "none" {
			all = append(all, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: HubNamespace, Name: HubName}, Data: map[string]string{HubKey: c.text}})
		}
		r, err := Collect(t.Context(), fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(all...).Build(), clockAt)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Hub; (got == nil) != (c.hub == "") || got != nil && got.Text() != c.hub {
			t.Errorf("%s: %+v, want %s", name, got, c.hub)
		}
		attention := ""
		for _, f := range r.Attention {
			attention += f.Reason
		}
		if attention != c.attention {
			t.Errorf("%s: needs attention: %q, want %q", name, attention, c.attention)
		}
		if got := strings.Join(r.NotRead, ""); (got == "") != (c.notRead == "") || !strings.Contains(got, c.notRead) {
			t.Errorf("%s: not read: %q, want %q", name, got, c.notRead)
		}
	}
}
