package selection

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

func tagSelector(namespace string, entries ...v1alpha1.NativeServiceSelector) v1alpha1.CloudEntitySelector {
	s := v1alpha1.CloudEntitySelector{}
	s.Namespace, s.Name = namespace, "tags"
	s.Spec.NativeSelector = entries
	return s
}

func namedTag(names ...string) v1alpha1.NativeServiceSelector {
	e := v1alpha1.NativeServiceSelector{Kind: v1alpha1.NativeServiceServiceTag}
	for _, n := range names {
		e.ServiceMatch = append(e.ServiceMatch, v1alpha1.EntityMatch{MatchName: n})
	}
	return e
}

// TestServiceTagGroups: a service tag that a selector names becomes one Group with its addresses,
// whichever regions tell it, in the namespaces that name it; nothing else imports one.
func TestServiceTagGroups(t *testing.T) {
	t.Parallel()
	blocks := []netip.Prefix{netip.MustParsePrefix("13.69.104.0/26"), netip.MustParsePrefix("2603:1020::/46")}
	tags := map[string][]netip.Prefix{"Sql.WestEurope": blocks, "Storage": blocks[:1], "Empty": nil, "AzureCloud": make([]netip.Prefix, maxBlocks+1)}
	snapshots := []*cloud.Snapshot{
		{Scope: cloud.Scope{Region: "northeurope"}, OwnerID: "sub", ServiceFaults: []cloud.ServiceFault{{API: "service tags", Kinds: []cloud.ServiceKind{cloud.ServiceTag}, Err: errors.New("no")}}},
		{Scope: cloud.Scope{Region: "westeurope"}, OwnerID: "sub", ServiceTags: tags}, {Scope: cloud.Scope{Region: "westus"}, OwnerID: "sub", ServiceTags: tags},
	}
	v := View{Account: types.NamespacedName{Namespace: "clouds", Name: "acc"}, Provider: v1alpha1.CloudProviderAzure, Snapshots: snapshots, Selectors: []v1alpha1.CloudEntitySelector{
		tagSelector("apps", namedTag("Sql.WestEurope", "Empty", "AzureCloud", "Nobody")),
		tagSelector("others", v1alpha1.NativeServiceSelector{ServiceMatch: []v1alpha1.EntityMatch{{MatchName: "Storage"}}}),
	}}
	d := Compute(v)
	if len(d.Groups) != 1 || len(d.Services) != 3 || len(d.Entities) != 0 || d.Selected[0].Services != 3 || d.Selected[1].Services != 0 {
		t.Fatalf("%v %v %v", d.Groups, d.Services, d.Selected)
	}
	shown := map[string]*v1alpha1.CloudNativeService{}
	for key, n := range d.Services {
		shown[n.Status.CloudName] = n
		if g := d.Groups[key]; (g != nil) != (n.Status.Group == key.Name) || key.Namespace != "apps" || n.Status.Settable {
			t.Errorf("%s: %+v, group %v", key, n.Status, g)
		} else if g != nil && (len(g.Spec.IPBlocks) != 2 || g.Spec.IPBlocks[0].CIDR != "13.69.104.0/26" || g.Spec.IPBlocks[1].CIDR != "2603:1020::/46") {
			t.Errorf("%+v", g.Spec)
		}
	}
	for name, want := range map[string]string{"Sql.WestEurope": "True OK", "Empty": "False NoAddress", "AzureCloud": "False TooLarge"} {
		if got := condition(shown[name].Status.Conditions, v1alpha1.ConditionAddressed); got != want {
			t.Errorf("%s: Addressed is %s, want %s", name, got, want)
		}
	}
	sql := shown["Sql.WestEurope"]
	if !strings.HasPrefix(sql.Name, "servicetag-sql-westeurope-") || sql.Status.Addresses != "13.69.104.0/26 and 1 more blocks" || sql.Status.Region != "westeurope" {
		t.Errorf("%s %+v", sql.Name, sql.Status)
	}

	// Nobody can tell any more, after a restart: everything is as its object has it.
	sql.Annotations = mark(v.Account)
	v.Services, v.Snapshots = map[types.NamespacedName]*v1alpha1.CloudNativeService{client.ObjectKeyFromObject(sql): sql}, snapshots[:1]
	again := Compute(v)
	if g := again.Groups[client.ObjectKeyFromObject(sql)]; g == nil || len(g.Spec.IPBlocks) != 2 || len(again.Groups) != 1 {
		t.Errorf("%v", again.Groups)
	}
	// Where it can be told, and is not there, it is gone.
	v.Snapshots = []*cloud.Snapshot{{Scope: cloud.Scope{Region: "westeurope"}, OwnerID: "sub", ServiceTags: map[string][]netip.Prefix{}}}
	if d := Compute(v); len(d.Groups)+len(d.Services) > 0 {
		t.Errorf("%v", d.Groups)
	}
}

// TestServiceTagSelectors: service tags are asked for by their kind and names only.
func TestServiceTagSelectors(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		entry v1alpha1.NativeServiceSelector
		ok    bool
	}{
		"named":   {namedTag("Sql"), true},
		"all":     {namedTag(), false},
		"network": {v1alpha1.NativeServiceSelector{Kind: v1alpha1.NativeServiceServiceTag, VpcMatch: &v1alpha1.EntityMatch{MatchName: "x"}, ServiceMatch: namedTag("Sql").ServiceMatch}, false},
	} {
		s := tagSelector("apps", c.entry)
		if got := checkNative(&s); (got == "") != c.ok || !c.ok && !strings.HasPrefix(got, "spec.nativeSelector[0]: want serviceMatch") {
			t.Errorf("%s: %q", what, got)
		}
	}
	any := KindsAsked([]v1alpha1.CloudEntitySelector{tagSelector("apps", v1alpha1.NativeServiceSelector{ServiceMatch: namedTag("Sql").ServiceMatch})})
	if len(any) != len(cloud.ServiceKinds()) {
		t.Errorf("an entry without a kind asks for %v", any)
	}
	if got := KindsAsked([]v1alpha1.CloudEntitySelector{tagSelector("apps", namedTag("Sql"))}); len(got) != 1 || got[0] != cloud.ServiceTag {
		t.Errorf("%v", got)
	}
}
