package webhook_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

// seen is a Witness that keeps what it is told.
type seen []string

func (s *seen) Admitted(group, resource string, object []byte, user string) {
	*s = append(*s, fmt.Sprintf("%s %s.%s %v", user, resource, group, strings.Contains(string(object), `"priority":5`)))
}

func (s *seen) Deleted(group, resource string, object []byte, user string) {
	*s = append(*s, fmt.Sprintf("%s deletes %s.%s %v", user, resource, group, strings.Contains(string(object), `"name":"p"`)))
}

// TestWitness: a witness receives changes that are admitted, once, from the last webhook, and
// nothing that is refused or only tried.
func TestWitness(t *testing.T) {
	var got seen
	handlers := webhook.Witnessed(view(t, false), view(t, true), &got)
	const good = `{"apiVersion":"crd.antrea.io/v1beta1","kind":"NetworkPolicy","metadata":{"name":"p","namespace":"ns"},"spec":{"priority":5,"appliedTo":[{"podSelector":{}}],"ingress":[{"action":"Drop"}]}}`
	bad := strings.Replace(good, `"Drop"`, `"Dorp"`, 1)
	review := func(path, operation, user, object, more string) {
		t.Helper()
		body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":%q,"namespace":"ns","name":"p",
			"resource":{"group":"crd.antrea.io","version":"v1beta1","resource":"networkpolicies"},"userInfo":{"username":%q},"object":%s%s}}`, operation, user, object, more)
		if code, answer := postRaw(t, handlers[path], http.MethodPost, []byte(body)); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
	}
	review("/mutate/annp", "CREATE", "early", good, "")
	review("/validate/annp", "CREATE", "alice", good, "")
	review("/validate/annp", "UPDATE", "bob", good, `,"oldObject":`+good)
	review("/validate/annp", "CREATE", "mallory", bad, "")
	review("/validate/annp", "CREATE", "tester", good, `,"dryRun":true`)
	review("/witness/annp", "DELETE", "carol", "null", `,"oldObject":`+good)
	review("/witness/annp", "DELETE", "tester", "null", `,"oldObject":`+good+`,"dryRun":true`)
	review("/validate/annp", "DELETE", "twice", "null", `,"oldObject":`+good)
	want := []string{"alice networkpolicies.crd.antrea.io true", "bob networkpolicies.crd.antrea.io true", "carol deletes networkpolicies.crd.antrea.io true"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}
