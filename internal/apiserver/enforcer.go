package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
)

// EnforcerAccess says what an identity that may use the API may do there on behalf of enforcers.
type EnforcerAccess string

// The choices.
const (
	// OwnKey: it may watch, and report for, the enforcers that it is or that a rule lets it act
	// for, and no others.
	OwnKey EnforcerAccess = "own-key"
	// AnyKey: every caller that may use the API may watch and report for all enforcers, as with an
	// Antrea Controller.
	AnyKey EnforcerAccess = "any"
)

// String implements pflag.Value.
func (a *EnforcerAccess) String() string { return string(*a) }

// Type implements pflag.Value.
func (a *EnforcerAccess) Type() string { return "string" }

// Set implements pflag.Value: it takes one of the choices, or nothing for OwnKey.
func (a *EnforcerAccess) Set(s string) error {
	switch choice := EnforcerAccess(s); choice {
	case "":
		*a = OwnKey
	case OwnKey, AnyKey:
		*a = choice
	default:
		return fmt.Errorf("want %s or %s", OwnKey, AnyKey)
	}
	return nil
}

// What a rule allows that lets an identity act for an enforcer: the verb, and the resource of
// controlplane.antrea.io, whose name is the key of the enforcer.
const (
	VerbEnforce       = "enforce"
	ResourceEnforcers = "enforcers"
)

// nodeUserPrefix begins the names of kubelets, which are in the group user.NodesGroup.
const nodeUserPrefix = "system:node:"

// gate decides for which enforcers a caller may act. What else he may do has been decided before.
type gate struct {
	access     EnforcerAccess
	authorizer authorizer.Authorizer
	metrics    *Metrics
	watches    *limits.Watches
}

// allow fails unless the caller may act for the enforcer with the key, or with an empty key for all
// of them. The error names what is forbidden, a resource and a name if there is one.
func (g gate) allow(ctx context.Context, what schema.GroupResource, name, key string) error {
	return g.counted(what, g.decide(ctx, what, name, key))
}

// counted counts an error that is a refusal.
func (g gate) counted(what schema.GroupResource, err error) error {
	if apierrors.IsForbidden(err) {
		g.metrics.refuse(what.Resource)
	}
	return err
}

func (g gate) decide(ctx context.Context, what schema.GroupResource, name, key string) error {
	caller, ok := request.UserFrom(ctx)
	if host, is := hostOf(caller); is { // whatever others may
		if key == host.id.Host.String() {
			return nil
		}
		return apierrors.NewForbidden(what, name, fmt.Errorf("the certificate is that of host %q, which may not act for enforcer %q", host.id.Host, key))
	}
	if g.access == AnyKey {
		return nil
	}
	if !ok {
		return apierrors.NewForbidden(what, name, errors.New("the request names no caller"))
	}
	if key != "" && isNode(caller, key) {
		return nil
	}
	asked := []authorizer.AttributesRecord{{Name: key}}
	if namespace, name, ok := strings.Cut(key, "/"); ok && !strings.Contains(name, "/") {
		// A Role in the namespace of an ExternalNode does, too.
		asked = append(asked, authorizer.AttributesRecord{Namespace: namespace, Name: name})
	}
	for _, a := range asked {
		a.User, a.Verb, a.APIGroup, a.APIVersion = caller, VerbEnforce, v1beta2.GroupName, v1beta2.GroupVersion().Version
		a.Resource, a.ResourceRequest = ResourceEnforcers, true
		decision, _, err := g.authorizer.Authorize(ctx, a)
		if decision == authorizer.DecisionAllow {
			return nil
		}
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("find out whether %q may act for enforcer %q: %w", caller.GetName(), key, err))
		}
	}
	return apierrors.NewForbidden(what, name, errors.New(refusal(caller, key)))
}

// refusal says why a caller may not act for an enforcer, and what would let him.
func refusal(caller user.Info, key string) string {
	rule := fmt.Sprintf("verb %q on resource %q of API group %q", VerbEnforce, ResourceEnforcers, v1beta2.GroupName)
	if key == "" {
		return fmt.Sprintf("user %q may not act for all enforcers: select one with fieldSelector nodeName=KEY, or let a rule allow %s without resourceNames",
			caller.GetName(), rule)
	}
	if namespace, name, ok := strings.Cut(key, "/"); ok && !strings.Contains(name, "/") {
		rule += fmt.Sprintf(" with the name %q, or in namespace %q with the name %q", key, namespace, name)
	} else {
		rule += fmt.Sprintf(" with the name %q", key)
	}
	return fmt.Sprintf("user %q may not act for enforcer %q: its token is not bound to a Node of that name, and no rule allows %s",
		caller.GetName(), key, rule)
}

// isNode reports whether the caller is the Node of that name, or a Pod on it: kube-apiserver
// guarantees the Node that a Pod's token is bound to.
func isNode(caller user.Info, node string) bool {
	if bound := caller.GetExtra()[serviceaccount.NodeNameKey]; len(bound) == 1 && bound[0] == node {
		return true
	}
	return caller.GetName() == nodeUserPrefix+node && slices.Contains(caller.GetGroups(), user.NodesGroup)
}

// reporter returns the key of the enforcer that a report without a field for it is about, given by
// name. It fails unless the caller may act for it. An agent of an ExternalNode gives the bare name
// of that: then it is the one in the namespace of its service account.
func (g gate) reporter(ctx context.Context, what schema.GroupResource, name string) (string, error) {
	err := g.decide(ctx, what, name, name)
	if err == nil || !apierrors.IsForbidden(err) || strings.Contains(name, "/") {
		return name, g.counted(what, err)
	}
	caller, _ := request.UserFrom(ctx)
	if caller == nil {
		return "", g.counted(what, err)
	}
	if namespace, _, wrong := serviceaccount.SplitUsername(caller.GetName()); wrong == nil {
		key := namespace + "/" + name
		if g.decide(ctx, what, name, key) == nil {
			return key, nil
		}
	}
	return "", g.counted(what, err)
}
