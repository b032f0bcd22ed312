package webhook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

// objects decodes stored objects.
func objects(t *testing.T, texts ...string) []client.Object {
	t.Helper()
	var out []client.Object
	for _, text := range texts {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatal(err)
		}
		into := map[string]client.Object{
			"Tier": &v1beta1.Tier{}, "Group": &v1beta1.Group{}, "ClusterGroup": &v1beta1.ClusterGroup{},
			"NetworkPolicy": &v1beta1.NetworkPolicy{}, "ClusterNetworkPolicy": &v1beta1.ClusterNetworkPolicy{},
			"Membership": &setv1alpha1.Membership{},
		}[kind.Kind]
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		out = append(out, into)
	}
	return out
}

// view is a State over stored objects.
func view(t *testing.T, live bool, stored ...string) webhook.State {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), setv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects(t, stored...)...).Build()
	return webhook.Reading{Reader: c, Live: live}
}

// asked is a question to one hook.
type asked struct {
	path, operation, object, old, namespace, version string
}

// ask puts a question to the handlers and returns the answer.
func ask(t *testing.T, handlers map[string]http.Handler, q asked) *admissionv1.AdmissionResponse {
	t.Helper()
	code, body := post(t, handlers, q)
	if code != http.StatusOK {
		t.Fatalf("HTTP %d: %s", code, body)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Response == nil || review.Response.UID != "question" {
		t.Fatalf("%v: %s", err, body)
	}
	if want := "admission.k8s.io/" + q.version; q.version != "" && review.APIVersion != want {
		t.Errorf("answered as %s, asked as %s", review.APIVersion, want)
	}
	return review.Response
}

func post(t *testing.T, handlers map[string]http.Handler, q asked) (int, []byte) {
	t.Helper()
	request := map[string]any{"uid": "question", "operation": q.operation, "namespace": q.namespace}
	for field, text := range map[string]string{"object": q.object, "oldObject": q.old} {
		if text == "" {
			continue
		}
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		request[field] = json.RawMessage(raw)
	}
	if q.version == "" {
		q.version = "v1"
	}
	raw, err := json.Marshal(map[string]any{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/" + q.version, "request": request})
	if err != nil {
		t.Fatal(err)
	}
	return postRaw(t, handlers[q.path], http.MethodPost, raw)
}

func postRaw(t *testing.T, h http.Handler, method string, body []byte) (int, []byte) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/", bytes.NewReader(body)))
	return w.Code, w.Body.Bytes()
}

func annp(spec string) string {
	return "{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {name: p, namespace: ns}, spec: " + spec + "}"
}

func acnp(spec string) string {
	return "{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: " + spec + "}"
}

func clusterGroup(name, spec string) string {
	return "{apiVersion: crd.antrea.io/v1beta1, kind: ClusterGroup, metadata: {name: " + name + "}, spec: " + spec + "}"
}

func group(name, spec string) string {
	return "{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {namespace: ns, name: " + name + "}, spec: " + spec + "}"
}

func tier(name string, priority int) string {
	return fmt.Sprintf("{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {name: %s}, spec: {priority: %d}}", name, priority)
}

// TestCompletion: the patch adds the tier and the names of rules, which are the recorded ones.
func TestCompletion(t *testing.T) {
	handlers := webhook.Handlers(view(t, false), view(t, true))
	add := func(path, value string) map[string]any {
		return map[string]any{"op": "add", "path": path, "value": value}
	}
	for name, c := range map[string]struct {
		path, object string
		want         []any
	}{
		"nothing to do": {"/mutate/annp", annp(`{tier: platform, priority: 5, appliedTo: [{podSelector: {}}], ingress: [{name: a, action: Drop}]}`), nil},
		"everything": {"/mutate/annp", annp(`{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}, {name: mine, action: Allow}], egress: [{action: Allow}]}`),
			[]any{add("/spec/tier", "application"), add("/spec/ingress/0/name", "ingress-drop-742ade5"), add("/spec/egress/0/name", "egress-allow-216bba8")}},
		"a rule with peers": {"/mutate/acnp", acnp(`{tier: baseline, priority: 5, appliedTo: [{podSelector: {}}],
			ingress: [{action: Drop, ports: [{port: 22}], from: [{externalEntitySelector: {matchLabels: {role: front}}}]}]}`),
			[]any{add("/spec/ingress/0/name", "ingress-drop-e04ea98")}},
		"what is no policy": {"/mutate/annp", annp(`{priority: high}`), nil},
		"groups":            {"/mutate/clustergroup", clusterGroup("g", "{podSelector: {}}"), nil},
		"a block of v1alpha2": {"/mutate/clustergroup", clusterGroup("g", "{ipBlock: {cidr: 10.0.0.0/8}}"), []any{
			map[string]any{"op": "add", "path": "/spec/ipBlocks", "value": []any{map[string]any{"cidr": "10.0.0.0/8"}}}, map[string]any{"op": "remove", "path": "/spec/ipBlock"}}},
		"a block and a list": {"/mutate/clustergroup", clusterGroup("g", "{ipBlock: {cidr: 10.0.0.0/8}, ipBlocks: [{cidr: 10.0.0.0/8}]}"), nil},
	} {
		for _, version := range []string{"v1", "v1beta1"} {
			got := ask(t, handlers, asked{path: c.path, operation: "CREATE", object: c.object, version: version})
			if !got.Allowed {
				t.Errorf("%s: refused: %+v", name, got.Result)
			}
			var patch []any
			if len(got.Patch) > 0 {
				if *got.PatchType != admissionv1.PatchTypeJSONPatch {
					t.Errorf("%s: patch type %s", name, *got.PatchType)
				}
				if err := json.Unmarshal(got.Patch, &patch); err != nil {
					t.Fatal(err)
				}
			}
			if !reflect.DeepEqual(patch, c.want) {
				t.Errorf("%s: patch %v, want %v", name, patch, c.want)
			}
		}
	}
}

// TestBadInput holds what is refused, and that the message names field, value and what is allowed.
// Policies and groups are refused by both of their hooks.
func TestBadInput(t *testing.T) {
	stored := []string{
		tier("emergency", 50), tier("mine", 5),
		clusterGroup("leaf", "{podSelector: {}}"), clusterGroup("parent", "{childGroups: [leaf, late]}"),
		group("leaf", "{podSelector: {}}"), group("parent", "{childGroups: [leaf, late]}"),
	}
	handlers := webhook.Handlers(view(t, false, stored...), view(t, true, stored...))
	rule := func(more string) string {
		return annp(`{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Allow, ` + more + `}]}`)
	}
	to := func(more string) string {
		return annp(`{priority: 5, appliedTo: [{podSelector: {}}], egress: [{action: Allow, ` + more + `}]}`)
	}
	for name, c := range map[string]struct{ kind, object, want string }{
		"unknown tier":           {"annp", annp(`{tier: gold, priority: 5, appliedTo: [{podSelector: {}}]}`), `spec.tier: invalid value "gold": want the name of an existing Tier`},
		"tier with a slash":      {"annp", annp(`{tier: a/b, priority: 5, appliedTo: [{podSelector: {}}]}`), `spec.tier: invalid value "a/b"`},
		"nothing applied":        {"acnp", acnp(`{priority: 5, ingress: [{action: Drop}]}`), `spec.appliedTo: got nothing, want`},
		"applied twice":          {"acnp", acnp(`{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, appliedTo: [{podSelector: {}}]}]}`), `spec.ingress[0].appliedTo`},
		"Pass in baseline":       {"acnp", acnp(`{tier: baseline, priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Pass}]}`), `spec.ingress[0].action: invalid value "Pass"`},
		"Pass in Baseline":       {"acnp", acnp(`{tier: Baseline, priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Pass}]}`), `spec.ingress[0].action: invalid value "Pass"`},
		"equal unnamed rules":    {"acnp", acnp(`{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}, {action: Drop}]}`), `spec.ingress[1].name: invalid value "ingress-drop-742ade5"`},
		"label key":              {"annp", rule(`from: [{podSelector: {matchLabels: {a/b/c: x}}}]`), `spec.ingress[0].from[0].podSelector.matchLabels: invalid value "a/b/c"`},
		"IPv4-mapped":            {"annp", rule(`from: [{ipBlock: {cidr: "::ffff:10.0.0.0/104"}}]`), `spec.ingress[0].from[0].ipBlock.cidr: invalid value "::ffff:10.0.0.0/104": want an IPv4 CIDR`},
		"except of other family": {"annp", rule(`from: [{ipBlock: {cidr: 10.0.0.0/8, except: ["2001:db8::/64"]}}]`), `spec.ingress[0].from[0].ipBlock.except[0]: invalid value "2001:db8::/64": want a strict subset of 10.0.0.0/8`},
		"except outside":         {"annp", rule(`from: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]`), `spec.ingress[0].from[0].ipBlock.except[0]: invalid value "11.0.0.0/16"`},
		"except all":             {"annp", rule(`from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/8]}}]`), `spec.ingress[0].from[0].ipBlock.except[0]: invalid value "10.0.0.0/8"`},
		"port":                   {"annp", rule(`ports: [{port: 70000}]`), `spec.ingress[0].ports[0].port: invalid value "70000": want a number from 1 to 65535`},
		"range of a named port":  {"annp", rule(`ports: [{port: http, endPort: 90}]`), `spec.ingress[0].ports[0].endPort: invalid value "90"`},
		"range backwards":        {"annp", rule(`ports: [{port: 90, endPort: 80}]`), `spec.ingress[0].ports[0].endPort: invalid value "80"`},
		"source range":           {"annp", rule(`ports: [{sourceEndPort: 80}]`), `spec.ingress[0].ports[0].sourceEndPort: invalid value "80"`},
		"fqdn":                   {"annp", to(`to: [{fqdn: "a_b.example"}]`), `spec.egress[0].to[0].fqdn: invalid value "a_b.example"`},
		"two kinds of peer":      {"acnp", acnp(`{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{group: g, podSelector: {}}]}]}`), `spec.ingress[0].from[0]`},
		"services and peers":     {"annp", to(`toServices: [{name: s}], to: [{podSelector: {}}]`), `spec.egress[0].toServices: invalid value "s"`},
		"L7 of a drop":           {"annp", annp(`{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, l7Protocols: [{http: {}}]}]}`), `spec.ingress[0].l7Protocols`},
		"Service on egress":      {"acnp", acnp(`{priority: 5, appliedTo: [{service: {name: s, namespace: ns}}], egress: [{action: Drop}]}`), `spec.appliedTo[0].service: invalid value "s"`},

		"own child":        {"clustergroup", clusterGroup("g", `{childGroups: [g]}`), `spec.childGroups[0]: invalid value "g": want another group`},
		"grandchildren":    {"clustergroup", clusterGroup("g", `{childGroups: [leaf, parent]}`), `spec.childGroups[1]: invalid value "parent": want a group without childGroups`},
		"cycle":            {"clustergroup", clusterGroup("late", `{childGroups: [parent]}`), `spec.childGroups[0]: invalid value "parent"`},
		"child of a child": {"clustergroup", clusterGroup("late", `{childGroups: [leaf]}`), `spec.childGroups: invalid value "leaf": want no childGroups in a group that is itself a child, of parent`},
		"two contents":     {"clustergroup", clusterGroup("g", `{podSelector: {}, ipBlocks: [{cidr: 10.0.0.0/8}]}`), `spec: got podSelector and ipBlocks`},
		"block in block":   {"clustergroup", clusterGroup("g", `{ipBlocks: [{cidr: 10.0.0.0/8, except: [10.0.0.0/8]}]}`), `spec.ipBlocks[0].except[0]: invalid value "10.0.0.0/8"`},
		"of a Namespace":   {"group", group("g", `{childGroups: [parent]}`), `spec.childGroups[0]: invalid value "parent"`},
		"only Namespaces":  {"group", group("g", `{namespaceSelector: {}, childGroups: [leaf]}`), `spec.namespaceSelector`},
	} {
		for _, phase := range []string{"/mutate/", "/validate/"} {
			for _, operation := range []string{"CREATE", "UPDATE"} {
				q := asked{path: phase + c.kind, operation: operation, object: c.object, namespace: "ns"}
				if strings.HasPrefix(c.kind, "c") || c.kind == "acnp" {
					q.namespace = ""
				}
				got := ask(t, handlers, q)
				if got.Allowed || got.Result.Code != http.StatusBadRequest || !strings.HasPrefix(got.Result.Message, c.want) {
					t.Errorf("%s, %s %s: allowed %t, %+v\nwant %s", name, operation, q.path, got.Allowed, got.Result, c.want)
					continue
				}
				field, _, _ := strings.Cut(c.want, ": ")
				if causes := got.Result.Details.Causes; len(causes) == 0 || causes[0].Field != field {
					t.Errorf("%s: causes %+v, want one about %s", name, causes, field)
				}
			}
		}
	}
}

// TestForms: what the form is wrong in is refused with the code of the schema, in words, before the
// schema is looked at and after; what cannot be read is left to the schema.
func TestForms(t *testing.T) {
	handlers := webhook.Handlers(view(t, false), view(t, true))
	for name, c := range map[string]struct{ path, object string }{
		"operator":       {"/mutate/annp", annp(`{priority: 5, appliedTo: [{podSelector: {matchExpressions: [{key: a, operator: Near}]}}], ingress: [{action: Drop, ports: [{port: 70000}]}]}`)},
		"value":          {"/mutate/annp", annp(`{priority: 5, tier: gold, appliedTo: [{podSelector: {matchLabels: {a: "b c"}}}]}`)},
		"no values":      {"/mutate/annp", annp(`{priority: 5, tier: gold, appliedTo: [{podSelector: {matchExpressions: [{key: a, operator: In}]}}]}`)},
		"CIDR":           {"/mutate/annp", annp(`{priority: 5, tier: gold, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 10.0.0.0/99}}]}]}`)},
		"scope":          {"/mutate/annp", annp(`{priority: 5, tier: gold, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{podSelector: {}, scope: World}]}]}`)},
		"namespaces":     {"/mutate/acnp", acnp(`{priority: 5, tier: gold, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {match: Other}}]}]}`)},
		"IGMP":           {"/mutate/annp", annp(`{priority: 5, tier: gold, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, protocols: [{igmp: {groupAddress: all}}]}]}`)},
		"priority":       {"/mutate/annp", annp(`{priority: 0.5, appliedTo: []}`)},
		"nothing at all": {"/mutate/annp", annp(`{appliedTo: [{podSelector: {}}], ingress: [{}]}`)},
		"two in one":     {"/mutate/annp", annp(`{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, protocols: [{icmp: {}, igmp: {}}]}]}`)},
		"group selector": {"/mutate/group", group("g", `{podSelector: {matchExpressions: [{key: a, operator: Near}]}, childGroups: [g]}`)},
		"group block":    {"/mutate/clustergroup", clusterGroup("g", `{ipBlocks: [{cidr: x}], childGroups: [g]}`)},
	} {
		// The last word is the same.
		for _, path := range []string{c.path, strings.Replace(c.path, "mutate", "validate", 1)} {
			got := ask(t, handlers, asked{path: path, operation: "CREATE", object: c.object})
			if got.Allowed || got.Result.Code != http.StatusUnprocessableEntity || strings.Contains(got.Result.Message, `value ""`) {
				t.Errorf("%s: %s answers %+v", name, path, got.Result)
			}
		}
	}
	all := acnp(`{priority: 5, tier: gold, appliedTo: all}`)
	if got := ask(t, handlers, asked{path: "/mutate/acnp", operation: "CREATE", object: all}); !got.Allowed || got.Patch != nil {
		t.Errorf("what cannot be read: %+v", got)
	}
	if got := ask(t, handlers, asked{path: "/validate/acnp", operation: "CREATE", object: all}); got.Allowed || got.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("what cannot be read: %+v", got)
	}
}

// TestAccepted: what others get wrong, and what is odd but means something.
func TestAccepted(t *testing.T) {
	stored := []string{tier("mine", 5)}
	handlers := webhook.Handlers(view(t, false, stored...), view(t, true, stored...))
	bad := annp(`{tier: gone, priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}`)
	leaving := strings.Replace(bad, "namespace: ns", `namespace: ns, deletionTimestamp: "2020-01-01T00:00:00Z", finalizers: [x]`, 1)
	for name, q := range map[string]asked{
		"tier of one's own":   {path: "/validate/annp", operation: "CREATE", object: annp(`{tier: mine, priority: 5, appliedTo: [{podSelector: {}}]}`)},
		"legacy tier":         {path: "/validate/annp", operation: "CREATE", object: annp(`{tier: SecurityOps, priority: 5, appliedTo: [{podSelector: {}}]}`)},
		"system tier not yet": {path: "/validate/annp", operation: "CREATE", object: annp(`{tier: emergency, priority: 5, appliedTo: [{podSelector: {}}]}`)},
		"host bits":           {path: "/validate/annp", operation: "CREATE", object: annp(`{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 10.0.0.5/24}}]}]}`)},
		"group that is not":   {path: "/validate/acnp", operation: "CREATE", object: acnp(`{priority: 5, appliedTo: [{group: later}], ingress: [{action: Drop, from: [{group: a/b}]}]}`)},
		"child that is not":   {path: "/validate/clustergroup", operation: "CREATE", object: clusterGroup("g", `{childGroups: [later]}`)},
		"entities in cluster": {path: "/validate/acnp", operation: "CREATE", object: acnp(`{priority: 5, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Drop, from: [{externalEntitySelector: {}}]}]}`)},
		"old policy labelled": {path: "/validate/annp", operation: "UPDATE", object: strings.Replace(bad, "name: p", "name: p, labels: {a: b}", 1), old: bad},
		"and not completed":   {path: "/mutate/annp", operation: "UPDATE", object: strings.Replace(bad, "name: p", "name: p, labels: {a: b}", 1), old: bad},
		"policy on its way":   {path: "/validate/annp", operation: "UPDATE", object: leaving, old: leaving},
		"old group labelled":  {path: "/validate/group", operation: "UPDATE", object: group("g", "{childGroups: [g]}"), old: group("g", "{childGroups: [g]}")},
	} {
		if got := ask(t, handlers, q); !got.Allowed || got.Patch != nil {
			t.Errorf("%s: %+v", name, got.Result)
		}
	}
	q := asked{
		path:      "/validate/acnp",
		operation: "CREATE",
		object:    acnp(`{priority: 5, appliedTo: [{nodeSelector: {}}], ingress: [{action: Drop, enableLogging: true, logLabel: longer-than-twelve}]}`),
	}
	if got := ask(t, handlers, q); !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "spec.ingress[0].logLabel") {
		t.Errorf("a long logLabel on Nodes: %+v", got)
	}
	good := annp(`{priority: 5, appliedTo: [{podSelector: {}}]}`)
	annotated := strings.Replace(good, "name: p", "name: p, annotations: {nephele.io/on-refusal: tighten}", 1)
	q = asked{path: "/validate/annp", operation: "UPDATE", object: annotated, old: good}
	if got := ask(t, handlers, q); annotated == good || !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], `"tighten" has no effect any more`) {
		t.Errorf("an annotation that means nothing: %+v", got)
	}
	for object, want := range map[string]string{
		annp(`{priority: 5, appliedTo: [{}]}`): "spec.appliedTo[0]: got nothing, want a field that selects; without any, the entry means all Pods of the Namespace",
		acnp(`{priority: 5, appliedTo: [{}]}`): "spec.appliedTo[0]: got nothing, want a field that selects; without any, the entry means nothing",
		group("g", "{}"):                       "spec: got nothing, want a field that selects; without any, the group is all Pods of its Namespace",
	} {
		path := map[bool]string{true: "/validate/annp", false: "/validate/acnp"}[strings.Contains(object, "kind: NetworkPolicy")]
		if strings.Contains(object, "kind: Group") {
			path = "/validate/group"
		}
		if got := ask(t, handlers, asked{path: path, operation: "CREATE", namespace: "ns", object: object}); !got.Allowed || len(got.Warnings) != 1 || got.Warnings[0] != want {
			t.Errorf("%s: %+v, want the warning %s", object, got, want)
		}
	}
}

// TestRefusalNamesTheObject: a refusal says which object of which kind it is about, as the API
// server's own do.
func TestRefusalNamesTheObject(t *testing.T) {
	empty := view(t, false)
	body := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "question", "operation": "CREATE", "name": "p", "namespace": "vms",
		"resource": {"group": "crd.antrea.io", "version": "v1beta1", "resource": "networkpolicies"},
		"object": {"metadata": {"name": "p", "namespace": "vms"}, "spec": {"priority": 5, "tier": "securtyops", "appliedTo": [{"podSelector": {}}], "ingress": []}}}}`
	w := httptest.NewRecorder()
	webhook.Handlers(empty, empty)["/validate/annp"].ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/validate/annp", strings.NewReader(body)))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil || review.Response.Allowed || review.Response.Result == nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if d := review.Response.Result.Details; d == nil || d.Name != "p" || d.Group != "crd.antrea.io" || d.Kind != "networkpolicies" || len(d.Causes) != 1 {
		t.Errorf("%+v", d)
	}
	if m := review.Response.Result.Message; !strings.Contains(m, "the name of an existing Tier, one of securityops, ") {
		t.Errorf("%s", m)
	}
}

// TestWhatLooksLikeAMistakeIsWarnedOf: at once, when it is applied; it is accepted all the same.
func TestWhatLooksLikeAMistakeIsWarnedOf(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, v1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	vm := &v1alpha2.ExternalEntity{}
	vm.Namespace, vm.Name, vm.Labels = "vms", "vm", map[string]string{"nephe.antrea.io/tag-role": "db"}
	group := &v1beta1.Group{}
	group.Namespace, group.Name = "vms", "databases"
	state := webhook.Reading{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(vm, group).Build(), Proven: true}
	handlers := webhook.Handlers(state, state)
	warned := func(spec string) []string {
		t.Helper()
		r := ask(t, handlers, asked{path: "/validate/annp", operation: "CREATE", namespace: "vms", object: "{metadata: {name: p, namespace: vms}, spec: " + spec + "}"})
		if !r.Allowed {
			t.Errorf("refused: %+v", r.Result)
		}
		return r.Warnings
	}
	if got := warned(
		"{priority: 5, appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}], ingress: [{action: Allow, name: a, from: [{group: databases}]}]}",
	); len(
		got,
	) != 0 {
		t.Errorf("warned of nothing: %q", got)
	}
	got := warned(
		"{priority: 5, appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}], ingress: [{action: Allow, name: a, from: [{group: database}, {ipBlock: {cidr: 10.1.2.3/16}}]}]}",
	)
	for i, want := range []string{"spec.ingress[0].from[1].ipBlock.cidr: ", "spec.ingress[0].from[0].group: invalid value \"database\": want a group that exists, one of databases",
		"spec.appliedTo[0].externalEntitySelector: got a selector of nobody, want labels that some ExternalEntity has; none has role; did you mean nephe.antrea.io/tag-role?"} {
		if len(got) != 3 || !strings.HasPrefix(got[i], want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// A caller without proof of its identity learns nothing of what there is.
	state.Proven = false
	handlers = webhook.Handlers(state, state)
	got = warned(
		"{priority: 5, appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}], ingress: [{action: Allow, name: a, from: [{group: database}, {ipBlock: {cidr: 10.1.2.3/16}}]}]}",
	)
	if len(got) != 1 || !strings.HasPrefix(got[0], "spec.ingress[0].from[1].ipBlock.cidr: ") {
		t.Errorf("a stranger is told %q", got)
	}
}

// TestScopeClusterSet: an own policy may name workloads of other clusters in a member of a set, and
// only what can be named.
func TestScopeClusterSet(t *testing.T) {
	const member = "{apiVersion: set.nephele.io/v1alpha1, kind: Membership, metadata: {name: hub}, spec: {hub: ['hub:1'], cluster: east}}"
	alone, in := view(t, false), view(t, false, member)
	for _, c := range []struct {
		what, peer, want string
		cached, live     webhook.State
	}{
		{"in no set", "{podSelector: {}, scope: ClusterSet}", "this one is no member", alone, alone},
		{"a member", "{podSelector: {}, scope: ClusterSet}", "", in, in},
		{"a member since a moment", "{podSelector: {}, scope: ClusterSet}", "", alone, in},
		{"addresses", "{ipBlock: {cidr: 10.0.0.0/8}, scope: ClusterSet}", "spec.ingress[0].from[0].scope", in, in},
		{"a label of one", "{podSelector: {matchLabels: {pod-template-hash: x}}, scope: ClusterSet}", "do not tell each other", in, in},
		{"a group", "{group: g, scope: ClusterSet}", "a group is one of its own cluster", in, in},
	} {
		spec := "{tier: application, priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Allow, name: r, from: [" + c.peer + "]}]}"
		got := ask(t, webhook.Handlers(c.cached, c.live), asked{path: "/validate/annp", operation: "CREATE", object: annp(spec)})
		if got.Allowed != (c.want == "") || !got.Allowed && !strings.Contains(got.Result.Message, c.want) {
			t.Errorf("%s: allowed %t, %+v", c.what, got.Allowed, got.Result)
		}
	}
}
