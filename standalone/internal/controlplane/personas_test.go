package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// may asks the API server whether a user may do something: "VERB RESOURCE.GROUP[/SUBRESOURCE]".
func may(t *testing.T, admin client.Client, user, namespace, what string) bool {
	t.Helper()
	verb, rest, ok := strings.Cut(what, " ")
	if !ok {
		t.Fatalf("%q", what)
	}
	rest, sub, _ := strings.Cut(rest, "/")
	resource, group, _ := strings.Cut(rest, ".")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: "x",
	}}}
	mustNot(t, admin.Create(t.Context(), review))
	return review.Status.Allowed
}

// TestPersonas: what each role lets its holder do in the namespace where he has it, and what not.
func TestPersonas(t *testing.T) {
	admin := guarded(t)
	const cloud, antrea, computed = "crd.cloud.antrea.io", "crd.antrea.io", "controlplane.antrea.io"
	verbs := func(group, resource string, verbs ...string) (out []string) {
		for _, v := range verbs {
			out = append(out, v+" "+resource+"."+group)
		}
		return out
	}
	write := []string{"create", "update", "patch", "delete", "deletecollection"}
	read := func(group string, resources ...string) (out []string) {
		for _, r := range resources {
			out = append(out, verbs(group, r, "get", "list", "watch")...)
		}
		return out
	}
	readAll := slices.Concat(read(cloud, "cloudprovideraccounts", "cloudentityselectors", "virtualmachines", "vpcs", "cloudnativeservices", "networkinterfaces"),
		read(antrea, "networkpolicies", "groups", "externalentities", "externalnodes"), read("nephele.io", "policyrevisions"))
	policies := slices.Concat(verbs(antrea, "networkpolicies", write...), verbs(antrea, "groups", write...))
	accounts := verbs(cloud, "cloudprovideraccounts", append(slices.Clone(write), "use")...)
	selectors := verbs(cloud, "cloudentityselectors", write...)
	tags := verbs(cloud, "virtualmachines", "update", "patch")
	services := append(verbs(cloud, "cloudnativeservices", "update", "patch"), verbs(cloud, "networkinterfaces", "update", "patch")...)
	var glass []string
	for _, kind := range []string{"cloudentityselectors", "virtualmachines", "cloudnativeservices", "networkinterfaces"} {
		glass = append(glass, verbs(cloud, kind, "breakglass")...)
	}
	// What nobody but the administrator and the controller may do.
	nobody := slices.Concat(
		verbs(cloud, "virtualmachines", "create", "delete", "deletecollection"),
		verbs(cloud, "vpcs", write...),
		verbs(cloud, "cloudnativeservices", write...),
		verbs(cloud, "cloudnativeservices/status", "update", "patch"),
		verbs(cloud, "networkinterfaces", write...),
		verbs(cloud, "networkinterfaces/status", "update", "patch"),
		verbs(antrea, "externalentities", write...),
		verbs(antrea, "externalnodes", write...),
		verbs(antrea, "tiers", append(slices.Clone(write), "use")...),
		verbs(
			cloud,
			"cloudprovideraccounts/status",
			"update",
			"patch",
		),
		verbs(cloud, "cloudentityselectors/status", "update", "patch"),
		verbs(cloud, "virtualmachines/status", "update", "patch"),
		verbs(antrea, "networkpolicies/status", "update", "patch"),
		verbs(computed, "networkpolicies/status", "create"),
		verbs("nephele.io", "policyrevisions", write...),
		verbs("nephele.io", "policyrevisions/status", "update", "patch"),
		verbs("", "secrets", append(slices.Clone(write), "get", "list", "watch")...),
		verbs("", "namespaces", "create", "update", "patch"),
		verbs("", "pods", write...),
		verbs("rbac.authorization.k8s.io", "rolebindings", write...),
		verbs("rbac.authorization.k8s.io", "roles", append(slices.Clone(write), "bind", "escalate")...),
		verbs("admissionregistration.k8s.io", "validatingadmissionpolicies", write...),
		verbs("", "users", "impersonate"),
		verbs("", "serviceaccounts", "impersonate"),
		verbs("", "serviceaccounts/token", "create"),
		verbs("", "pods/exec", "create"),
	)
	everything := slices.Concat(readAll, policies, accounts, selectors, tags, glass, nobody)

	for role, can := range map[string][]string{
		"nephele-account-administrator":  slices.Concat(readAll, accounts),
		"nephele-account-user":           verbs(cloud, "cloudprovideraccounts", "get", "use"),
		"nephele-selector-administrator": slices.Concat(readAll, selectors, tags),
		"nephele-policy-author":          slices.Concat(readAll, policies),
		"nephele-break-glass-operator":   slices.Concat(readAll, verbs(cloud, "cloudentityselectors", "update", "patch"), tags, services, glass),
		"nephele-auditor": slices.Concat(readAll, read("", "pods", "services", "configmaps", "events", "serviceaccounts"), read("networking.k8s.io", "networkpolicies"),
			read("rbac.authorization.k8s.io", "roles", "rolebindings")),
	} {
		ns := newNamespace(t, "persona")
		name := role + "@" + ns
		bind(t, name, ns, role)
		eventually(t, role+" is aggregated", func(context.Context) error {
			for _, what := range can {
				if !may(t, admin, name, ns, what) {
					return fmt.Errorf("may not %s", what)
				}
			}
			return nil
		})
		for _, what := range everything {
			if may(t, admin, name, ns, what) && !slices.Contains(can, what) {
				t.Errorf("%s may %s", role, what)
			}
			if may(t, admin, name, "default", what) {
				t.Errorf("%s of another namespace may %s", role, what)
			}
		}
	}
	// What a namespace cannot hold.
	for role, can := range map[string][]string{
		"nephele-policy-author": slices.Concat(verbs(antrea, "clusternetworkpolicies", write...), verbs(antrea, "clustergroups", write...), read(antrea, "tiers")),
		"nephele-tier-user":     verbs(antrea, "tiers", "get", "use"),
		"nephele-tracer":        verbs(antrea, "traceflows", "get", "list", "watch", "create", "delete"),
		"nephele-capturer":      verbs(antrea, "packetcaptures", "get", "list", "watch", "create", "delete"),
		"nephele-reviewer":      verbs("analysis.nephele.io", "flowreviews", "create"),
		"nephele-planner":       verbs("analysis.nephele.io", "planreviews", "create"),
		"nephele-auditor": slices.Concat(verbs("analysis.nephele.io", "reachreviews", "create"), verbs("analysis.nephele.io", "effectiverules", "create"), verbs("analysis.nephele.io", "planreviews", "create"), read(antrea, "tiers", "clusternetworkpolicies", "clustergroups"), read("", "namespaces", "nodes"), read("rbac.authorization.k8s.io", "clusterroles", "clusterrolebindings"),
			read("admissionregistration.k8s.io", "validatingadmissionpolicies", "validatingadmissionpolicybindings"), read("apiextensions.k8s.io", "customresourcedefinitions"),
			read(computed, "networkpolicies", "addressgroups", "appliedtogroups"), verbs(computed, "enforcers", "enforce")),
	} {
		name := role + "@everywhere"
		bind(t, name, "", role)
		eventually(t, role+" everywhere", func(context.Context) error {
			for _, what := range can {
				if !may(t, admin, name, "", what) {
					return fmt.Errorf("may not %s", what)
				}
			}
			return nil
		})
		for _, what := range slices.Concat(verbs(antrea, "tiers", "create", "update", "patch", "delete"), verbs("", "secrets", "get", "list", "watch"), verbs("", "nodes", "update")) {
			if may(t, admin, name, "", what) {
				t.Errorf("%s may %s everywhere", role, what)
			}
		}
	}
}

// TestNoPersonaMakesItself: the rights of a persona do not suffice to get more of them, and no role
// of ours takes in a role that somebody without rights over roles could make.
func TestNoPersonaMakesItself(t *testing.T) {
	guarded(t)
	ns := newNamespace(t, "climber")
	name := "climber@" + ns
	c := person(t, name, ns, "edit", "nephele-account-administrator", "nephele-selector-administrator", "nephele-policy-author", "nephele-auditor")
	var errs []error
	for _, o := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "up"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nephele-break-glass-operator"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "up-" + ns, Labels: map[string]string{"nephele.io/aggregate-to-policy-author": "true"}},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}},
	} {
		if err := c.Create(t.Context(), o); err == nil {
			errs = append(errs, fmt.Errorf("%T was created", o))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
