package selection

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// TestCheck: each fault of a selector is named with its path; what the schema takes is no fault.
func TestCheck(t *testing.T) {
	t.Parallel()
	nothing, web := v1alpha1.EntityMatch{}, v1alpha1.EntityMatch{MatchName: "web"}
	vm := func(e v1alpha1.VirtualMachineSelector) v1alpha1.CloudEntitySelectorSpec {
		return v1alpha1.CloudEntitySelectorSpec{VMSelector: []v1alpha1.VirtualMachineSelector{{VpcMatch: &web}, e}}
	}
	service := func(e v1alpha1.NativeServiceSelector) v1alpha1.CloudEntitySelectorSpec {
		return v1alpha1.CloudEntitySelectorSpec{NativeSelector: []v1alpha1.NativeServiceSelector{e}}
	}
	port := func(e v1alpha1.NetworkInterfaceSelector) v1alpha1.CloudEntitySelectorSpec {
		return v1alpha1.CloudEntitySelectorSpec{InterfaceSelector: []v1alpha1.NetworkInterfaceSelector{e}}
	}
	for _, c := range []struct {
		spec v1alpha1.CloudEntitySelectorSpec
		want string
	}{
		{v1alpha1.CloudEntitySelectorSpec{}, ""},
		{vm(v1alpha1.VirtualMachineSelector{VMMatch: []v1alpha1.EntityMatch{web}}), ""},
		{vm(v1alpha1.VirtualMachineSelector{Agented: true}), "spec.vmSelector[1]: one of vpcMatch, vmMatch and tagMatch must be set"},
		{vm(v1alpha1.VirtualMachineSelector{VpcMatch: &nothing}), "spec.vmSelector[1].vpcMatch: one of matchID and matchName must be set"},
		{vm(v1alpha1.VirtualMachineSelector{VMMatch: []v1alpha1.EntityMatch{web, nothing}}), "spec.vmSelector[1].vmMatch[1]: one of matchID and matchName must be set"},
		{service(v1alpha1.NativeServiceSelector{Kind: "RDSInstance"}), ""},
		{service(v1alpha1.NativeServiceSelector{}), "spec.nativeSelector[0]: one of kind, vpcMatch, serviceMatch and tagMatch must be set"},
		{service(v1alpha1.NativeServiceSelector{VpcMatch: &nothing}), "spec.nativeSelector[0].vpcMatch: one of matchID and matchName must be set"},
		{service(v1alpha1.NativeServiceSelector{ServiceMatch: []v1alpha1.EntityMatch{nothing}}), "spec.nativeSelector[0].serviceMatch[0]: one of matchID and matchName must be set"},
		{service(v1alpha1.NativeServiceSelector{Kind: v1alpha1.NativeServiceKind(cloud.ServiceTag)}), "spec.nativeSelector[0]: want serviceMatch with the names of service tags, " +
			"and neither vpcMatch nor tagMatch: a service tag is in no network, and Azure has thousands"},
		{port(v1alpha1.NetworkInterfaceSelector{TagMatch: []v1alpha1.TagMatch{{Key: "env"}}}), ""},
		{port(v1alpha1.NetworkInterfaceSelector{}), "spec.interfaceSelector[0]: one of vpcMatch, interfaceMatch and tagMatch must be set"},
		{port(v1alpha1.NetworkInterfaceSelector{VpcMatch: &nothing}), "spec.interfaceSelector[0].vpcMatch: one of matchID and matchName must be set"},
		{port(v1alpha1.NetworkInterfaceSelector{InterfaceMatch: []v1alpha1.EntityMatch{nothing}}), "spec.interfaceSelector[0].interfaceMatch[0]: one of matchID and matchName must be set"},
	} {
		if got := Check(&v1alpha1.CloudEntitySelector{Spec: c.spec}); got != c.want {
			t.Errorf("%+v:\n  %q; want\n  %q", c.spec, got, c.want)
		}
	}
}

// TestRefusals: an account without a grant lets every namespace select. One with a grant lets its
// own, those that it names and those with the labels; the others hear what to change.
func TestRefusals(t *testing.T) {
	t.Parallel()
	prod := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Like"}}}
	const missing = `namespace web may not select VMs of CloudProviderAccount clouds/acc: add "web" to its spec.allowedNamespaces.names`
	unread := errors.New("the API server is away")
	for what, c := range map[string]struct {
		grant     *v1alpha1.NamespaceGrant
		namespace string
		labels    map[string]string
		found     bool
		err       error
		want      string
	}{
		"no grant":                     {namespace: "web"},
		"its own":                      {grant: &v1alpha1.NamespaceGrant{}, namespace: "clouds"},
		"by name":                      {grant: &v1alpha1.NamespaceGrant{Names: []string{"db", "web"}}, namespace: "web"},
		"nobody":                       {grant: &v1alpha1.NamespaceGrant{}, namespace: "web", want: missing},
		"by label":                     {grant: &v1alpha1.NamespaceGrant{Selector: prod}, namespace: "web", labels: prod.MatchLabels, found: true},
		"another label":                {grant: &v1alpha1.NamespaceGrant{Selector: prod}, namespace: "web", found: true, want: missing + ", or give the namespace the labels that its spec.allowedNamespaces.selector asks for"},
		"no such namespace":            {grant: &v1alpha1.NamespaceGrant{Selector: prod}, namespace: "web", labels: prod.MatchLabels, want: missing + ", or give the namespace the labels that its spec.allowedNamespaces.selector asks for"},
		"a selector that says nothing": {grant: &v1alpha1.NamespaceGrant{Selector: wrong}, namespace: "web", want: missing + `, or correct its spec.allowedNamespaces.selector, which is invalid: "Like" is not a valid label selector operator`},
		"labels that cannot be read":   {grant: &v1alpha1.NamespaceGrant{Selector: prod}, namespace: "web", err: unread},
	} {
		cpa := &v1alpha1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "clouds", Name: "acc"}, Spec: v1alpha1.CloudProviderAccountSpec{AllowedNamespaces: c.grant}}
		of := func(string) (map[string]string, bool, error) { return c.labels, c.found, c.err }
		got, err := refusal(cpa, c.namespace, of)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", what, got, err, c.want, c.err)
		}
		may, not, err := Granted(cpa, []v1alpha1.CloudEntitySelector{*ces(c.namespace, "x")}, of)
		if (len(may) == 1) != (c.want == "" && c.err == nil) || (len(not) == 1) != (c.want != "") || !errors.Is(err, c.err) {
			t.Errorf("%s: %d may, %d may not, %v", what, len(may), len(not), err)
		}
	}
}

// TestReasonsForRelease: a release in an emergency says why, and a value that was perhaps meant to
// end it says that it does not.
func TestReasonsForRelease(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"the site is down": "the site is down", " fire ": "fire", "with\x1blines": "withlines",
		"":      "no reason is given; if it is to end, remove the annotation, an empty one releases the VM too",
		"false": `"false"; if it is to end, remove the annotation, any value releases the VM`, "No": `"No"; if it is to end, remove the annotation, any value releases the VM`,
	} {
		if got := glassReason(value); got != want {
			t.Errorf("%q: %q; want %q", value, got, want)
		}
	}
}

// TestClashMessage names at most three of the VMs that have no object.
func TestClashMessage(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "web", Name: "vm"}
	for n, want := range map[int]string{1: "o0, too, which", 3: "o0, o1, o2, too, which", 5: "o0, o1, o2 and 2 more, too, which"} {
		c := Clash{has: "first"}
		for i := range n {
			c.others = append(c.others, fmt.Sprintf("o%d", i))
		}
		if got := c.Message(key); !strings.Contains(got, "VirtualMachine web/vm stands for first. It would stand for "+want+" is not imported") {
			t.Errorf("%d: %q", n, got)
		}
	}
}

// TestUnmatched names the entries that select nothing; services count only where any is shown.
func TestUnmatched(t *testing.T) {
	t.Parallel()
	s := &v1alpha1.CloudEntitySelector{Spec: v1alpha1.CloudEntitySelectorSpec{
		VMSelector:        []v1alpha1.VirtualMachineSelector{byIDs("i-1"), byIDs("i-2")},
		NativeSelector:    []v1alpha1.NativeServiceSelector{{Kind: "RDSInstance"}},
		InterfaceSelector: []v1alpha1.NetworkInterfaceSelector{{InterfaceMatch: []v1alpha1.EntityMatch{{MatchID: "eni-1"}}}, {InterfaceMatch: []v1alpha1.EntityMatch{{MatchID: "eni-2"}}}},
	}}
	snap := &cloud.Snapshot{VMs: []cloud.VM{{ID: "i-1"}}, Interfaces: []cloud.Interface{{ID: "eni-1"}}}
	want := []string{"spec.vmSelector[1] selects no VM", "spec.interfaceSelector[1] selects no network interface"}
	if got := Unmatched(s, []*cloud.Snapshot{snap}); !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	snap.Services = []cloud.Service{{Kind: cloud.ApplicationLoadBalancer}}
	want = slices.Insert(want, 1, "spec.nativeSelector[0] selects no native service")
	if got := Unmatched(s, []*cloud.Snapshot{snap}); !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}

// TestPartOfNothing: what Part tells of an account in which nothing has changed is what Compute
// tells, without an object of a VM.
func TestPartOfNothing(t *testing.T) {
	t.Parallel()
	v := View{Account: accountKey, Snapshots: []*cloud.Snapshot{oddCloud()}, Selectors: []v1alpha1.CloudEntitySelector{*ces("web", "all", wholeVPC("vpc-1"))}}
	whole := Compute(v)
	part, gone := Part(v, whole.Tally, v.Snapshots, map[string]bool{"i-1": true})
	if len(part.VMs) != 1 || len(gone.VMs) != 1 || len(part.Vpcs) != len(whole.Vpcs) {
		t.Errorf("%d VMs now, %d before, %d networks", len(part.VMs), len(gone.VMs), len(part.Vpcs))
	}
	if got, want := fmt.Sprint(part.Tally), fmt.Sprint(whole.Tally); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
