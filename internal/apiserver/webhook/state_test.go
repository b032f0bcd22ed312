package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

func TestTiers(t *testing.T) {
	var many []string
	for i := range 19 {
		many = append(many, tier(fmt.Sprintf("t%d", i), i))
	}
	few := []string{tier("emergency", 50), tier("mine", 5), tier("used", 6), annp(`{tier: used, priority: 5, appliedTo: [{podSelector: {}}]}`)}
	for name, c := range map[string]struct {
		stored                 []string
		operation, object, old string
		want                   string
	}{
		"new":               {few, "CREATE", tier("t", 7), "", ""},
		"taken":             {few, "CREATE", tier("t", 5), "", `spec.priority: invalid value "5": want a priority that no other Tier has; mine has it`},
		"reserved":          {few, "CREATE", tier("t", 252), "", `spec.priority: invalid value "252": want a priority from 0 to 249 other than 220`},
		"upstream's":        {few, "CREATE", tier("t", 220), "", `spec.priority: invalid value "220"`},
		"of a system tier":  {few, "CREATE", tier("t", 50), "", `spec.priority: invalid value "50": want a priority that no other Tier has; emergency has it`},
		"the twentieth":     {many, "CREATE", tier("t", 100), "", ""},
		"one too many":      {append(many, tier("t19", 19)), "CREATE", tier("t", 100), "", `metadata.name: invalid value "t": want no more than 20 tiers`},
		"a system tier":     {append(many, tier("t19", 50)), "CREATE", tier("emergency", 50), "", ""},
		"moved":             {few, "UPDATE", tier("mine", 8), tier("mine", 5), `spec.priority: invalid value "8": want the priority the Tier was created with, 5`},
		"described":         {few, "UPDATE", tier("mine", 5), tier("mine", 5), ""},
		"system tier moved": {few, "UPDATE", tier("emergency", 51), tier("emergency", 50), `spec.priority: invalid value "51"`},
		"and put back":      {few, "UPDATE", tier("emergency", 50), tier("emergency", 51), ""},
		"deleted":           {few, "DELETE", "", tier("mine", 5), ""},
		"in use":            {few, "DELETE", "", tier("used", 6), `metadata.name: invalid value "used": want a Tier to which no policy refers; NetworkPolicy ns/p does`},
		"system's deleted":  {few, "DELETE", "", tier("emergency", 50), `metadata.name: invalid value "emergency": want a Tier that is not a system tier`},
		"no tier":           {few, "CREATE", "{spec: {priority: high}}", "", `object: got what cannot be read`},
	} {
		handlers := webhook.Handlers(view(t, false, c.stored...), view(t, true, c.stored...))
		got := ask(t, handlers, asked{path: "/validate/tier", operation: c.operation, object: c.object, old: c.old})
		if got.Allowed != (c.want == "") || !got.Allowed && !strings.HasPrefix(got.Result.Message, c.want) {
			t.Errorf("%s: allowed %t, %+v", name, got.Allowed, got.Result)
		}
	}
}

// TestStaleness: a cache that is behind refuses nothing by itself, and the API is only asked where
// it may.
func TestStaleness(t *testing.T) {
	inTier := func(name string) string {
		return annp("{tier: " + name + ", priority: 5, appliedTo: [{podSelector: {}}]}")
	}
	for name, c := range map[string]struct {
		cached, live []string
		q            asked
		allowed      bool
	}{
		"tier made a moment ago":       {nil, []string{tier("new", 5)}, asked{path: "/validate/annp", operation: "CREATE", object: inTier("new")}, true},
		"tier made nowhere":            {nil, nil, asked{path: "/validate/annp", operation: "CREATE", object: inTier("new")}, false},
		"policy deleted a moment ago":  {[]string{inTier("t")}, nil, asked{path: "/validate/tier", operation: "DELETE", old: tier("t", 5)}, true},
		"cluster policy still there":   {[]string{acnp("{tier: t, priority: 5}")}, []string{acnp("{tier: t, priority: 5}")}, asked{path: "/validate/tier", operation: "DELETE", old: tier("t", 5)}, false},
		"tier made by somebody else":   {nil, []string{tier("other", 5)}, asked{path: "/validate/tier", operation: "CREATE", object: tier("t", 5)}, false},
		"child changed a moment ago":   {[]string{clusterGroup("c", "{childGroups: [d]}")}, []string{clusterGroup("c", "{podSelector: {}}")}, asked{path: "/validate/clustergroup", operation: "CREATE", object: clusterGroup("g", "{childGroups: [c]}")}, true},
		"parent deleted a moment ago":  {[]string{group("f", "{childGroups: [g]}")}, nil, asked{path: "/mutate/group", operation: "CREATE", object: group("g", "{childGroups: [c]}"), namespace: "ns"}, true},
		"parent of another Namespace":  {[]string{group("f", "{childGroups: [g]}")}, []string{group("f", "{childGroups: [g]}")}, asked{path: "/mutate/group", operation: "CREATE", object: group("g", "{childGroups: [c]}"), namespace: "m"}, true},
		"parent in the same Namespace": {[]string{group("f", "{childGroups: [g]}")}, []string{group("f", "{childGroups: [g]}")}, asked{path: "/mutate/group", operation: "CREATE", object: group("g", "{childGroups: [c]}"), namespace: "ns"}, false},
	} {
		handlers := webhook.Handlers(view(t, false, c.cached...), view(t, true, c.live...))
		if got := ask(t, handlers, c.q); got.Allowed != c.allowed {
			t.Errorf("%s: allowed %t, %+v", name, got.Allowed, got.Result)
		}
	}
}

// down is a State that cannot be read.
type down struct{}

func (down) Tells() bool { return true }

var errDown = errors.New("etcd is down")

func (down) Tiers(context.Context) ([]policy.Tier, error)             { return nil, errDown }
func (down) PolicyIn(context.Context, string) (*policy.Policy, error) { return nil, errDown }
func (down) Member(context.Context) (bool, error)                     { return false, errDown }
func (down) Groups(context.Context, string) ([]policy.Group, error)   { return nil, errDown }

// TestNothingToDecideOn: what cannot be looked up is refused as an error of ours, what needs no
// looking up is decided.
func TestNothingToDecideOn(t *testing.T) {
	handlers := webhook.Handlers(down{}, down{})
	for name, c := range map[string]struct {
		q    asked
		code int32
	}{
		"own tier":    {asked{path: "/mutate/annp", operation: "CREATE", object: annp("{tier: t, priority: 5, appliedTo: [{podSelector: {}}]}")}, 500},
		"system tier": {asked{path: "/validate/annp", operation: "CREATE", object: annp("{tier: platform, priority: 5, appliedTo: [{podSelector: {}}]}")}, 0},
		"new tier":    {asked{path: "/validate/tier", operation: "CREATE", object: tier("t", 5)}, 500},
		"old tier":    {asked{path: "/validate/tier", operation: "DELETE", old: tier("t", 5)}, 500},
		"group":       {asked{path: "/validate/group", operation: "CREATE", object: group("g", "{podSelector: {}}")}, 0},
		"nested":      {asked{path: "/validate/group", operation: "CREATE", object: group("g", "{childGroups: [c]}")}, 500},
	} {
		got := ask(t, handlers, c.q)
		if got.Allowed != (c.code == 0) || !got.Allowed && (got.Result.Code != c.code || !strings.Contains(got.Result.Message, errDown.Error())) {
			t.Errorf("%s: allowed %t, %+v", name, got.Allowed, got.Result)
		}
	}
	// One of the two views is enough.
	handlers = webhook.Handlers(down{}, view(t, true, tier("t", 5)))
	q := asked{path: "/validate/annp", operation: "CREATE", object: annp("{tier: t, priority: 5, appliedTo: [{podSelector: {}}]}")}
	if got := ask(t, handlers, q); !got.Allowed {
		t.Errorf("without a cache: %+v", got.Result)
	}
}

func (down) Entities(context.Context, string) (iter.Seq[admission.Entity], error) {
	return nil, errors.New("is not there")
}

func TestUpstream(t *testing.T) {
	handlers := webhook.Handlers(down{}, down{})
	cnp := func(spec string) string {
		return "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: " + spec + "}"
	}
	good := cnp(`{tier: Admin, priority: 5, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`)
	bad := cnp(`{tier: Admin, priority: 5000, subject: {namespaces: {}}}`)
	for name, c := range map[string]struct {
		q    asked
		want string
	}{
		"good":            {asked{path: "/validate/cnp", operation: "CREATE", object: good}, ""},
		"priority":        {asked{path: "/validate/cnp", operation: "CREATE", object: bad}, `spec.priority: invalid value "5000"`},
		"priority before": {asked{path: "/validate/cnp", operation: "UPDATE", object: bad, old: bad}, ""},
		"name": {asked{path: "/validate/banp", operation: "CREATE",
			object: "{kind: BaselineAdminNetworkPolicy, metadata: {name: mine}, spec: {subject: {namespaces: {}}}}"}, `metadata.name: invalid value "mine"`},
		"subject": {asked{path: "/validate/anp", operation: "CREATE", object: "{kind: AdminNetworkPolicy, metadata: {name: p}, spec: {priority: 5}}"}, `spec.subject`},
		"type":    {asked{path: "/validate/anp", operation: "CREATE", object: "{spec: {priority: high}}"}, `object: got what cannot be read`},
	} {
		got := ask(t, handlers, c.q)
		if got.Allowed != (c.want == "") || !got.Allowed && (got.Result.Code != 400 && name != "type" || !strings.HasPrefix(got.Result.Message, c.want)) {
			t.Errorf("%s: allowed %t, %+v", name, got.Allowed, got.Result)
		}
	}
}

func TestNoQuestion(t *testing.T) {
	handlers := webhook.Handlers(down{}, down{})
	for name, c := range map[string]struct {
		method, body string
		code         int
	}{
		"GET":           {http.MethodGet, "", http.StatusMethodNotAllowed},
		"nothing":       {http.MethodPost, "", http.StatusBadRequest},
		"no JSON":       {http.MethodPost, "kind: AdmissionReview", http.StatusBadRequest},
		"another kind":  {http.MethodPost, `{"kind": "Pod", "apiVersion": "v1"}`, http.StatusBadRequest},
		"later version": {http.MethodPost, `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v2", "request": {}}`, http.StatusBadRequest},
		"no request":    {http.MethodPost, `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}`, http.StatusBadRequest},
		"too large":     {http.MethodPost, `{"kind": "` + strings.Repeat("x", 9<<20) + `"}`, http.StatusRequestEntityTooLarge},
		"no object":     {http.MethodPost, `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"operation": "CREATE"}}`, http.StatusOK},
	} {
		for _, path := range webhook.Paths() {
			if code, body := postRaw(t, handlers[path], c.method, []byte(c.body)); code != c.code {
				t.Errorf("%s at %s: HTTP %d %s, want %d", name, path, code, body, c.code)
			}
		}
	}
}

// FuzzReview: whatever is sent, there is an answer.
func FuzzReview(f *testing.F) {
	f.Add(`{"metadata":{"name":"p"},"spec":{"priority":5,"appliedTo":[{"podSelector":{}}],"ingress":[{"action":"Drop"}]}}`)
	f.Add(`{"spec":{"childGroups":["a"],"ipBlocks":[{"cidr":"::/0","except":["::1/128"]}]}}`)
	f.Add(`{"spec":{"priority":300}}`)
	handlers := webhook.Handlers(down{}, down{})
	f.Fuzz(func(t *testing.T, object string) {
		if !json.Valid([]byte(object)) {
			return
		}
		for _, path := range webhook.Paths() {
			for _, operation := range []string{"CREATE", "UPDATE", "DELETE"} {
				body := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":%q,"object":%s}}`, operation, object)
				if code, answer := postRaw(t, handlers[path], http.MethodPost, []byte(body)); code != http.StatusOK {
					t.Errorf("%s: HTTP %d %s", path, code, answer)
				}
			}
		}
	})
}
