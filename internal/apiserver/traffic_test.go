package apiserver_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// trafficBook keeps what was reported, and of which policies the enforcer was given any.
type trafficBook struct {
	mu    sync.Mutex
	taken []string
	given []string
}

func (b *trafficBook) Add(enforcer string, r *analysis.TrafficReportSpec, policy func(string) (string, string, string, bool)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range r.Causes {
		if c.Cause == "Whim" {
			return errors.New("spec.causes[0].cause: want another one")
		}
		kind, namespace, name, known := policy(c.UID)
		b.given = append(b.given, fmt.Sprint(kind, namespace, name, known))
	}
	b.taken = append(b.taken, enforcer)
	return nil
}

// postTraffic reports traffic for a key, of policies with a UID.
func postTraffic(c *rest.RESTClient, key, spec string) *rest.Request {
	body := fmt.Sprintf(`{"apiVersion":"analysis.nephele.io/v1alpha1","kind":"TrafficReport","metadata":{"name":%q},"spec":{"since":"2030-01-02T03:04:05.000000Z","until":"2030-01-02T03:04:05.000000Z"%s}}`, key, spec)
	return c.Post().AbsPath("/apis/analysis.nephele.io/v1alpha1/trafficreports").SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).
		MaxRetries(0).Body([]byte(body))
}

// TestTrafficReports takes what an enforcer reports for itself, says what is wrong with the rest,
// and lets no enforcer flood it. The rights to report for a key are in
// TestEnforcersActForThemselves.
func TestTrafficReports(t *testing.T) {
	t.Parallel()
	w := newGuardedWorld(t, apiserver.OwnKey, granted())
	w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{policyChange("u2", 1, "n1"), policyChange("u3", 1, "n2")}})
	book := w.traffic.(*trafficBook)
	c := w.client(t, "bound", runtime.ContentTypeJSON)
	if err := postTraffic(c, "n1", `,"causes":[{"cause":"Policy","uid":"u2"},{"cause":"Policy","uid":"u3"}]`).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	if len(book.taken) != 1 || book.taken[0] != "n1" || !slices.Equal(book.given, []string{"AntreaNetworkPolicynpolicy-u2true", "false"}) {
		t.Errorf("taken %v, given %v", book.taken, book.given)
	}
	for what, r := range map[string]*rest.Request{
		"no name": postTraffic(c, "", ""), "a whim": postTraffic(c, "n1", `,"causes":[{"cause":"Whim"}]`), "no JSON": postTraffic(c, "n1", `,`), "a wrong type": postTraffic(c, "n1", `,"traffic":7`),
	} {
		if err := r.Do(t.Context()).Error(); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := postTraffic(c, "n1", "").Param("dryRun", "All").Do(t.Context()).Error(); err != nil || len(book.taken) != 1 {
		t.Errorf("a dry run: %v, %d taken", err, len(book.taken))
	}
	var refused error
	for i := 0; i < 400 && refused == nil; i++ {
		refused = postTraffic(c, "n1", "").Do(t.Context()).Error()
	}
	if !apierrors.IsTooManyRequests(refused) || !strings.Contains(refused.Error(), `enforcer "n1" sends more than 10 reports of traffic a second`) {
		t.Errorf("a flood: %v", refused)
	}
	other := w.client(t, "role", runtime.ContentTypeJSON)
	if err := postTraffic(other, "ns/vm1", "").Do(t.Context()).Error(); err != nil {
		t.Errorf("another one is refused for it: %v", err)
	}
}
