package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

func manifestOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

func antrea(kind, name, spec string) string {
	namespace := ""
	if kind == "NetworkPolicy" || kind == "Group" || kind == "ExternalEntity" {
		namespace = ", namespace: default"
	}
	version := "v1beta1"
	if kind == "ExternalEntity" {
		version = "v1alpha2"
	}
	return fmt.Sprintf("{apiVersion: crd.antrea.io/%s, kind: %s, metadata: {name: %q%s}, spec: %s}", version, kind, name, namespace, spec)
}

// refusals are objects that are refused, with the code and what the message must name. 400 is the
// answer of the webhooks, 422 that of the schema or of the API server itself.
var refusals = map[string]struct {
	object string
	code   int32
	says   []string
}{
	"unknown field": {antrea("NetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingres: []}"), 400, []string{`unknown field "spec.ingres"`}},
	"unknown field deep": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, ports: [{prot: TCP}]}]}"),
		400,
		[]string{`unknown field "spec.ingress[0].ports[0].prot"`},
	},
	"text for a number": {antrea("NetworkPolicy", "x", "{priority: high, appliedTo: [{podSelector: {}}]}"), 422, []string{"spec.priority", "number"}},
	"text for a list":   {antrea("NetworkPolicy", "x", "{priority: 5, appliedTo: all}"), 422, []string{"spec.appliedTo", "array"}},
	"operator": {
		antrea("NetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {matchExpressions: [{key: a, operator: Like, values: [b]}]}}]}"),
		422,
		[]string{"spec.appliedTo[0].podSelector.matchExpressions[0].operator", "Like", "NotIn"},
	},
	"label value": {
		antrea("NetworkPolicy", "x", `{priority: 5, appliedTo: [{podSelector: {matchLabels: {a: "b c"}}}]}`),
		422,
		[]string{"spec.appliedTo[0].podSelector.matchLabels[a]", "b c"},
	},
	"label key": {
		antrea("NetworkPolicy", "x", `{priority: 5, appliedTo: [{podSelector: {matchLabels: {a/b/c: d}}}]}`),
		400,
		[]string{"spec.appliedTo[0].podSelector.matchLabels", "a/b/c"},
	},
	"CIDR": {
		antrea("NetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 10.0.0.0/33}}]}]}"),
		422,
		[]string{"spec.ingress[0].from[0].ipBlock.cidr", "10.0.0.0/33"},
	},
	"IPv4-mapped": {
		antrea("NetworkPolicy", "x", `{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: "::ffff:10.0.0.0/104"}}]}]}`),
		400,
		[]string{"spec.ingress[0].from[0].ipBlock.cidr", "::ffff:10.0.0.0/104", "want an IPv4 CIDR"},
	},
	"except of IPv6": {
		antrea("NetworkPolicy", "x", `{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 10.0.0.0/8, except: ["2001:db8::/64"]}}]}]}`),
		400,
		[]string{"spec.ingress[0].from[0].ipBlock.except[0]", "2001:db8::/64", "subset of 10.0.0.0/8"},
	},
	"entity IPv4-mapped": {antrea("ExternalEntity", "x", `{endpoints: [{ip: "::ffff:10.0.0.1"}]}`), 422, []string{"spec.endpoints[0].ip", "without ::ffff:"}},
	"entity no address":  {antrea("ExternalEntity", "x", `{endpoints: [{ip: 10.0.0}]}`), 422, []string{"spec.endpoints[0].ip"}},
	"group address": {
		antrea("NetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, protocols: [{igmp: {groupAddress: all}}]}]}"),
		422,
		[]string{"spec.ingress[0].protocols[0].igmp.groupAddress", "all"},
	},
	"unicast group address": {
		antrea("NetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, protocols: [{igmp: {groupAddress: 10.0.0.1}}]}]}"),
		400,
		[]string{"spec.ingress[0].protocols[0].igmp.groupAddress", "10.0.0.1"},
	},
	"namespaces of nothing": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {}}]}]}"),
		422,
		[]string{"spec.ingress[0].from[0].namespaces"},
	},
	"Pass in baseline": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, tier: baseline, appliedTo: [{podSelector: {}}], ingress: [{action: Pass}]}"),
		400,
		[]string{"spec.ingress[0].action", "Pass"},
	},
	"protocol": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, ports: [{protocol: ICMP}]}]}"),
		422,
		[]string{"spec.ingress[0].ports[0].protocol", "ICMP", "SCTP"},
	},
	"no action":   {antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{name: a}]}"), 422, []string{"spec.ingress[0].action"}},
	"no priority": {antrea("ClusterNetworkPolicy", "x", "{appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}"), 422, []string{"spec.priority"}},
	"ICMP type": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, protocols: [{icmp: {icmpType: 256}}]}]}"),
		422,
		[]string{"spec.ingress[0].protocols[0].icmp.icmpType"},
	},
	"method": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Allow, l7Protocols: [{http: {method: FETCH}}]}]}"),
		422,
		[]string{"spec.ingress[0].l7Protocols[0].http.method"},
	},
	"L7 of a drop": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, l7Protocols: [{http: {}}]}]}"),
		400,
		[]string{"spec.ingress[0].l7Protocols"},
	},
	"same label key": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {sameLabels: [a b]}}]}]}"),
		400,
		[]string{"spec.ingress[0].from[0].namespaces.sameLabels[0]", "a b"},
	},
	"multicast and unicast": {
		antrea(
			"ClusterNetworkPolicy",
			"x",
			"{priority: 5, appliedTo: [{podSelector: {}}], egress: [{action: Drop, to: [{ipBlock: {cidr: 224.0.0.0/24}}, {ipBlock: {cidr: 10.0.0.0/8}}]}]}",
		),
		400,
		[]string{"spec.egress[0].to"},
	},
	"service and pods": {
		antrea(
			"ClusterNetworkPolicy",
			"x",
			"{priority: 5, appliedTo: [{podSelector: {}}, {service: {name: s, namespace: default}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}",
		),
		400,
		[]string{"spec.appliedTo"},
	},
	"service from pods": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{service: {name: s, namespace: default}}], ingress: [{action: Drop, from: [{podSelector: {}}]}]}"),
		400,
		[]string{"spec.ingress[0].from[0]"},
	},
	"some rules applied": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, ingress: [{action: Drop, appliedTo: [{podSelector: {}}]}, {action: Allow}]}"),
		400,
		[]string{"spec.ingress[1].appliedTo"},
	},
	"source port range": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, ports: [{sourceEndPort: 5}]}]}"),
		400,
		[]string{"spec.ingress[0].ports[0].sourceEndPort"},
	},
	"fqdn of an ingress": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{fqdn: a.b}]}]}"),
		400,
		[]string{"spec.ingress[0].from[0].fqdn"},
	},
	"to of an ingress": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, to: [{podSelector: {}}]}]}"),
		422,
		[]string{"spec.ingress"},
	},
	"code without type": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, protocols: [{icmp: {icmpCode: 1}}]}]}"),
		422,
		[]string{"spec.ingress[0].protocols[0].icmp"},
	},
	"two protocols": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, protocols: [{icmp: {}, igmp: {}}]}]}"),
		422,
		[]string{"spec.ingress[0].protocols[0]: got icmp and igmp, want exactly one"},
	},
	"Exists with values": {
		antrea("NetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]}"),
		422,
		[]string{"matchExpressions[0].values: invalid value \"b\": want no values with operator Exists"},
	},
	"empty group": {antrea("NetworkPolicy", "x", `{priority: 5, appliedTo: [{group: ""}]}`), 422, []string{"spec.appliedTo[0].group: Invalid value: \"\""}},
	"empty fqdn": {
		antrea("NetworkPolicy", "x", `{priority: 5, appliedTo: [{podSelector: {}}], egress: [{action: Drop, to: [{fqdn: ""}]}]}`),
		422,
		[]string{"spec.egress[0].to[0].fqdn: Invalid value: \"\""},
	},
	"namespaces and CIDR": {
		antrea(
			"ClusterNetworkPolicy",
			"x",
			"{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {match: Self}, ipBlock: {cidr: 10.0.0.0/8}}]}]}",
		),
		400,
		[]string{"spec.ingress[0].from[0]: got namespaces and ipBlock"},
	},
	"namespaces on Nodes": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{nodeSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {match: Self}}]}]}"),
		400,
		[]string{"spec.appliedTo[0]: got nodeSelector"},
	},
	"ClusterSet": {
		antrea("ClusterNetworkPolicy", "x", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{podSelector: {}, scope: ClusterSet}]}]}"),
		400,
		[]string{"spec.ingress[0].from[0].scope", "ClusterSet"},
	},
	"unknown tier":        {antrea("NetworkPolicy", "x", "{priority: 5, tier: gold, appliedTo: [{podSelector: {}}]}"), 400, []string{"spec.tier", "gold", "existing Tier"}},
	"tier with a slash":   {antrea("NetworkPolicy", "x", "{priority: 5, tier: a/b, appliedTo: [{podSelector: {}}]}"), 400, []string{"spec.tier", "a/b"}},
	"policy with a slash": {antrea("NetworkPolicy", "a/b", "{priority: 5, appliedTo: [{podSelector: {}}]}"), 422, []string{"metadata.name", "a/b"}},
	"group with a slash":  {antrea("ClusterGroup", "a/b", "{podSelector: {}}"), 422, []string{"metadata.name", "a/b"}},
	"fqdn": {
		antrea("NetworkPolicy", "x", `{priority: 5, appliedTo: [{podSelector: {}}], egress: [{action: Drop, to: [{fqdn: "a_b"}]}]}`),
		400,
		[]string{"spec.egress[0].to[0].fqdn", "a_b"},
	},
	"tier clash":            {antrea("Tier", "x", "{priority: 50}"), 400, []string{"spec.priority", "50", "emergency has it"}},
	"tier reserved":         {antrea("Tier", "x", "{priority: 254}"), 400, []string{"spec.priority", "254", "0 to 249"}},
	"tier out of range":     {antrea("Tier", "x", "{priority: 256}"), 422, []string{"spec.priority", "255"}},
	"own child":             {antrea("ClusterGroup", "own", "{childGroups: [own]}"), 400, []string{"spec.childGroups[0]", "another group"}},
	"grandchildren":         {antrea("ClusterGroup", "x", "{childGroups: [parent]}"), 400, []string{"spec.childGroups[0]", "parent", "one level"}},
	"cycle":                 {antrea("ClusterGroup", "missing", "{childGroups: [parent]}"), 400, []string{"spec.childGroups[0]", "parent"}},
	"child with children":   {antrea("ClusterGroup", "missing", "{childGroups: [leaf]}"), 400, []string{"spec.childGroups", "itself a child, of parent"}},
	"group with two things": {antrea("Group", "x", "{podSelector: {}, ipBlocks: [{cidr: 10.0.0.0/8}]}"), 400, []string{"spec", "at most one of"}},
	"group except":          {antrea("Group", "x", "{ipBlocks: [{cidr: 10.0.0.0/8, except: [11.0.0.0/16]}]}"), 400, []string{"spec.ipBlocks[0].except[0]", "11.0.0.0/16"}},
	"upstream priority": {
		"{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: x}, spec: {tier: Admin, priority: 5, subject: {namespaces: {matchLabels: {a/b/c: d}}}}}",
		400,
		[]string{"spec.subject.namespaces", "a/b/c"},
	},
}

// TestAdmissionLive asks the real API server: what is wrong is refused with a code and a message
// that names it, what is left out is filled in, and tiers and groups may come and go.
func TestAdmissionLive(t *testing.T) {
	t.Parallel()
	c := pooledCluster(t)
	strict := client.WithFieldValidation(c.client, metav1.FieldValidationStrict)
	for _, text := range []string{antrea("ClusterGroup", "leaf", "{podSelector: {}}"), antrea("ClusterGroup", "parent", "{childGroups: [leaf, missing]}")} {
		if err := strict.Create(t.Context(), manifestOf(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the system tiers", func(ctx context.Context) (bool, string) {
		var tiers v1beta1.TierList
		err := c.client.List(ctx, &tiers)
		return len(tiers.Items) == 6, fmt.Sprint(len(tiers.Items), err)
	})
	for name, r := range refusals {
		err := strict.Create(t.Context(), manifestOf(t, r.object))
		if status := (apierrors.APIStatus)(nil); !asStatus(err, &status) || status.Status().Code != r.code {
			t.Errorf("%s: %v, want code %d", name, err, r.code)
			continue
		}
		for _, s := range r.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: no %q in: %v", name, s, err)
			}
		}
	}
	t.Run("offline", refusedOffline)
	t.Run("completed", func(t *testing.T) { completed(t, c) })
	t.Run("tiers come and go", func(t *testing.T) { tiersComeAndGo(t, c) })
	t.Run("groups come and go", func(t *testing.T) { groupsComeAndGo(t, c) })
	t.Run("watches", func(t *testing.T) { badWatches(t, c) })
	t.Run("restart", func(t *testing.T) {
		c.stop()
		c.start()
		c.waitReady()
		completed(t, c)
	})
}

// refusedOffline: the offline command refuses the same objects with the same codes. It does not go
// on with a manifest that has unknown fields or values of another type.
func refusedOffline(t *testing.T) {
	docs := []string{antrea("ClusterGroup", "leaf", "{podSelector: {}}"), antrea("ClusterGroup", "parent", "{childGroups: [leaf, missing]}")}
	want := map[string]int32{}
	for name, r := range refusals {
		if strings.Contains(name, "unknown field") || strings.HasPrefix(name, "text for") || strings.Contains(name, "slash") && r.code != 400 {
			continue
		}
		o := manifestOf(t, r.object)
		if o.GetName() == "x" {
			o.SetName("x" + strings.ToLower(strings.ReplaceAll(name, " ", "-")))
		} else {
			// One of the two that stand for a missing group.
			continue
		}
		raw, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(raw))
		want[o.GetName()] = r.code
	}
	path := filepath.Join(t.TempDir(), "input.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(docs, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := run(t, "policy", "compute", "-f", path)
	var got struct{ Rejected []refusedObject }
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 2 {
		t.Fatalf("exit %d, %v\n%s", code, err, errOut)
	}
	codes := map[string]int32{}
	for _, r := range got.Rejected {
		codes[r.Name] = r.Code
	}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("codes (-API server +offline):\n%s\n%s", diff, errOut)
	}
}

func asStatus(err error, into *apierrors.APIStatus) bool {
	status, ok := err.(apierrors.APIStatus)
	*into = status
	return ok
}

// completed creates, changes and deletes a policy whose author has left out what is filled in.
func completed(t *testing.T, c *cluster) {
	p := manifestOf(t, antrea("ClusterNetworkPolicy", "p", "{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}"))
	if err := c.client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	tier, _, _ := unstructured.NestedString(p.Object, "spec", "tier")
	rules, _, _ := unstructured.NestedSlice(p.Object, "spec", "ingress")
	if tier != "application" || len(rules) != 1 || rules[0].(map[string]any)["name"] != "ingress-drop-742ade5" {
		t.Errorf("stored: %v", p.Object["spec"])
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"egress": [{"action": "Allow"}]}}`))
	if err := c.client.Patch(t.Context(), p, patch); err != nil {
		t.Fatal(err)
	}
	rules, _, _ = unstructured.NestedSlice(p.Object, "spec", "egress")
	if len(rules) != 1 || rules[0].(map[string]any)["name"] != "egress-allow-216bba8" {
		t.Errorf("stored after the change: %v", p.Object["spec"])
	}
	if err := c.client.Delete(t.Context(), p); err != nil {
		t.Error(err)
	}
}

// tiersComeAndGo: a tier can be used as soon as it is there, stays while it is used, and can go as
// soon as it is not.
func tiersComeAndGo(t *testing.T, c *cluster) {
	for round := range 5 {
		tier := manifestOf(t, antrea("Tier", "mine", "{priority: 7}"))
		user := manifestOf(t, antrea("NetworkPolicy", "user", "{priority: 5, tier: mine, appliedTo: [{podSelector: {}}]}"))
		for _, o := range []*unstructured.Unstructured{tier, user} {
			if err := c.client.Create(t.Context(), o); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		eventually(t, "the policy is computed", func(ctx context.Context) (bool, string) {
			err := c.client.Get(ctx, client.ObjectKeyFromObject(user), user)
			phase, _, _ := unstructured.NestedString(user.Object, "status", "phase")
			return phase == "Realized" || phase == "Idle", fmt.Sprint(phase, err) // whether it selects something or not
		})
		if err := c.client.Delete(t.Context(), tier); err == nil || !strings.Contains(err.Error(), "NetworkPolicy default/user does") {
			t.Fatalf("round %d: deleting a tier in use: %v", round, err)
		}
		for _, o := range []*unstructured.Unstructured{user, tier} {
			if err := c.client.Delete(t.Context(), o); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
	system := &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "platform"}}
	if err := c.client.Delete(t.Context(), system); err == nil || !strings.Contains(err.Error(), "not a system tier") {
		t.Errorf("deleting a system tier: %v", err)
	}
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(system), system); err != nil {
		t.Fatal(err)
	}
	system.Spec.Priority = 3
	if err := c.client.Update(t.Context(), system); err == nil || !strings.Contains(err.Error(), "spec.priority") {
		t.Errorf("moving a system tier: %v", err)
	}
}

// groupsComeAndGo: a policy may name a group that is not there, and says so.
func groupsComeAndGo(t *testing.T, c *cluster) {
	p := &v1beta1.ClusterNetworkPolicy{}
	if err := yaml.Unmarshal(
		[]byte(antrea("ClusterNetworkPolicy", "early", "{priority: 5, appliedTo: [{group: not-yet}], ingress: [{action: Drop, from: [{group: a/b}]}]}")),
		p,
	); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	says := func(what string, words ...string) {
		eventually(t, what, func(ctx context.Context) (bool, string) {
			if err := c.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return false, err.Error()
			}
			raw, _ := json.Marshal(p.Status)
			for _, w := range words {
				if !strings.Contains(string(raw), w) {
					return false, string(raw)
				}
			}
			return true, ""
		})
	}
	says("the policy names what is missing", "not-yet", "a/b")
	if err := c.client.Create(t.Context(), manifestOf(t, antrea("ClusterGroup", "not-yet", "{podSelector: {}}"))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "only the other group is missing", func(ctx context.Context) (bool, string) {
		err := c.client.Get(ctx, client.ObjectKeyFromObject(p), p)
		raw, _ := json.Marshal(p.Status)
		return err == nil && !strings.Contains(string(raw), "not-yet") && strings.Contains(string(raw), "a/b"), string(raw)
	})
	if err := c.client.Delete(t.Context(), p); err != nil {
		t.Error(err)
	}
}

// badWatches: a watch of computed objects with a selector that there is not is refused, and so is a
// name with a slash.
func badWatches(t *testing.T, c *cluster) {
	r := newReplay(t, c)
	for path, want := range map[string]int{
		"networkpolicies?watch=true&fieldSelector=spec.tier%3Dx": http.StatusBadRequest,
		"addressgroups?watch=true&fieldSelector=nodeName%21%3Dx": http.StatusBadRequest,
		"appliedtogroups/a/b": http.StatusNotFound,
	} {
		var code int
		err := r.api.Get().RequestURI(computedPath + path).Do(t.Context()).StatusCode(&code).Error()
		if err == nil || code != want {
			t.Errorf("%s: HTTP %d, %v, want %d", path, code, err, want)
		}
	}
}
