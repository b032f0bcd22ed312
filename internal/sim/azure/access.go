package azure

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// Write is what a call that changes something carries besides what it is about.
type Write struct {
	By  *Principal
	Now time.Time
	// IfMatch and IfNoneMatch are the conditions of the request; empty if it has none.
	IfMatch, IfNoneMatch string
	// Fails lets the operation that the call begins fail in the end.
	Fails *document.Error
}

// subscription finds a subscription for a caller.
func (c *Cloud) subscription(by *Principal, id string) (*Subscription, error) {
	s := c.subscriptions[strings.ToLower(id)]
	switch {
	case s == nil && !guid.MatchString(id):
		return nil, document.BadRequest("InvalidSubscriptionId", "The provided subscription identifier '%s' is malformed or invalid.", id)
	case s == nil:
		return nil, document.Refuse(http.StatusNotFound, "SubscriptionNotFound", "The subscription '%s' could not be found.", id)
	case !strings.EqualFold(s.Tenant, by.Tenant):
		return nil, document.Refuse(http.StatusUnauthorized, "InvalidAuthenticationTokenTenant", "The access token is from the wrong issuer '%s'. It must match "+
			"the tenant '%s' associated with this subscription.", by.Tenant, s.Tenant)
	}
	return s, nil
}

// admit checks the principal, and whether the scope of the resource exists: all that Resource
// Manager decides before the provider of the resource.
func (c access) admit(by *Principal, action string, id document.ID) error {
	s, err := c.cloud.subscription(by, id.Subscription)
	if err != nil {
		return err
	}
	if err := by.Authorize(action, id.String()); err != nil {
		return err
	}
	if id.Provider != "" && s.Registered != nil && !slices.ContainsFunc(s.Registered, func(p string) bool { return strings.EqualFold(p, id.Provider) }) {
		return document.Refuse(http.StatusConflict, "MissingSubscriptionRegistration", "The subscription is not registered to use namespace '%s'. "+
			"See https://aka.ms/rps-not-found for how to register subscriptions.", id.Provider)
	}
	if id.Group != "" && c.cloud.groups[id.GroupID().Key()] == nil {
		return document.Refuse(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", id.Group)
	}
	return nil
}

// admitChange checks what may forbid a change besides. what is the resource that is changed.
func (c access) admitChange(by *Principal, action string, id document.ID) error {
	if err := c.admit(by, action, id); err != nil {
		return err
	}
	s := c.cloud.subscriptions[strings.ToLower(id.Subscription)]
	if s.State != "" && s.State != "Enabled" {
		return document.Refuse(http.StatusConflict, "ReadOnlyDisabledSubscription", "The subscription '%s' is disabled and therefore marked as read only. "+
			"You cannot perform any write actions on this subscription until it is re-enabled.", s.ID)
	}
	deletes := strings.HasSuffix(strings.ToLower(action), "/delete")
	for _, l := range c.cloud.locks {
		if document.Within(id.String(), l.Scope) && (l.Level == "ReadOnly" || deletes) {
			doing := "write"
			if deletes {
				doing = "delete"
			}
			return document.Refuse(http.StatusConflict, "ScopeLocked", "The scope '%s' cannot perform %s operation because following scope(s) are locked: '%s'. "+
				"Please remove the lock and try again.", id, doing, l.Scope)
		}
	}
	for _, d := range c.cloud.denials {
		if document.Within(id.String(), d.Scope) && like(strings.ToLower(d.Action), strings.ToLower(action)) {
			e := document.Refuse(http.StatusForbidden, "RequestDisallowedByPolicy", "Resource '%s' was disallowed by policy. Policy identifiers: "+
				"'[{\"policyAssignment\":{\"name\":\"%s\"}}]'.", id.Name(), d.Assignment)
			return e
		}
	}
	return nil
}

// canonical are the usual spellings of the types that there are, by the lower case one. It is never
// written to.
var canonical = map[string]string{
	document.TypeNSG: "Microsoft.Network/networkSecurityGroups", document.TypeASG: "Microsoft.Network/applicationSecurityGroups", document.TypeNIC: "Microsoft.Network/networkInterfaces",
	document.TypeVNet: "Microsoft.Network/virtualNetworks", document.TypeSubnet: "Microsoft.Network/virtualNetworks/subnets", document.TypePeering: "Microsoft.Network/virtualNetworks/virtualNetworkPeerings",
	document.TypeEndpoint: "Microsoft.Network/privateEndpoints", document.TypeRule: "Microsoft.Network/networkSecurityGroups/securityRules", document.TypePublicIP: "Microsoft.Network/publicIPAddresses",
	document.TypeVM: "Microsoft.Compute/virtualMachines", document.TypeSet: "Microsoft.Compute/virtualMachineScaleSets", document.TypeInstance: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
	document.TypeSetNIC: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/networkInterfaces",
	document.TypeTable:  "Microsoft.Network/routeTables", document.TypeRoute: "Microsoft.Network/routeTables/routes",
	typeNetworkGateway: "Microsoft.Network/virtualNetworkGateways", typeLocalGateway: "Microsoft.Network/localNetworkGateways", typeConnection: "Microsoft.Network/connections",
	document.TypeBalancer: "Microsoft.Network/loadBalancers", document.TypeGateway: "Microsoft.Network/applicationGateways",
}

// Spelling is the usual spelling of a type; false for one that is not simulated. It is a read.
func Spelling(kind string) (string, bool) {
	s, ok := canonical[strings.ToLower(kind)]
	return s, ok
}

// action is the name of an operation on a type, as roles have it.
func action(id document.ID, verb string) string {
	name, ok := Spelling(id.Type())
	if !ok {
		name = id.Provider + "/" + strings.Join(id.Types, "/")
	}
	return name + "/" + verb
}

// unknownType is the refusal of what is not simulated.
func unknownType(id document.ID) error {
	if _, ok := canonical[id.Type()]; ok {
		return nil
	}
	if !strings.EqualFold(id.Provider, "Microsoft.Network") && !strings.EqualFold(id.Provider, "Microsoft.Compute") {
		return document.Refuse(http.StatusNotFound, "InvalidResourceNamespace", "The resource namespace '%s' is invalid.", id.Provider)
	}
	return document.Refuse(http.StatusNotFound, "InvalidResourceType", "The resource type could not be found in the namespace '%s' for this api version.", id.Provider)
}

// busy refuses a change of a resource that an operation runs on.
func (c access) busy(r *Resource, now time.Time) error {
	if r == nil || r.Provisioning != document.Updating && r.Provisioning != document.Deleting {
		return nil
	}
	for _, o := range c.cloud.operations {
		if o.Status == document.InProgress && o.Target == r.id.Key() && o.Due.After(now) {
			return document.Refuse(http.StatusConflict, "AnotherOperationInProgress", "Another operation on this or dependent resource is in progress. To retrieve "+
				"status of the operation use uri: https://management.azure.com/subscriptions/%s/providers/Microsoft.Network/locations/%s/operations/%s?api-version=2025-03-01",
				o.Subscription, o.Location, o.ID)
		}
	}
	return nil
}

// referTo finds a resource that another one names, and refuses what is not there, elsewhere, or
// still in the making.
func (c access) referTo(key, from, location string, fromID document.ID) (*Resource, error) {
	r := c.cloud.resources[key]
	id, ok := document.ParseID(key)
	if r == nil || !ok || location != "" && !strings.EqualFold(r.Location, location) || !strings.EqualFold(id.Subscription, fromID.Subscription) {
		shown := key
		if r != nil {
			shown = r.ID
		}
		return nil, document.MissingReference(shown, from)
	}
	if r.Provisioning == document.Updating || r.Provisioning == document.Deleting {
		e := document.Refuse(http.StatusTooManyRequests, "RetryableError", "A retryable error occurred.")
		e.Details = []document.Detail{{Code: "ReferencedResourceNotProvisioned", Message: "Cannot proceed with operation because resource " + r.ID +
			" used by resource " + from + " is not in Succeeded state. Resource is in " + r.Provisioning + " state and the last operation that updated/is updating the resource is PutOperation."}}
		e.RetryAfter = 10 * time.Second
		return nil, e
	}
	return r, nil
}

// Registered reports whether a subscription has registered a provider. It is a read.
func (c *Cloud) Registered(by *Principal, subscription, namespace string) (bool, error) {
	s, err := c.Subscription(by, subscription)
	return s.Registered == nil || slices.ContainsFunc(s.Registered, func(p string) bool { return strings.EqualFold(p, namespace) }), err
}

// Register registers a provider.
func (c *Cloud) Register(w Write, subscription, namespace string) error {
	s, err := c.subscription(w.By, subscription)
	if err != nil {
		return err
	}
	if err := w.By.Authorize(namespace+"/register/action", "/subscriptions/"+s.ID); err != nil {
		return err
	}
	if s.Registered != nil {
		next := *s
		next.Registered = append(slices.Clone(s.Registered), namespace)
		c.subscriptions[strings.ToLower(subscription)] = &next
	}
	return nil
}

// SetLock puts a lock on a scope, or with no level removes it.
func (c *Cloud) SetLock(w Write, l Lock) error {
	id, _ := document.ParseID(l.Scope) // the scope has been read from a path
	verb := "write"
	if l.Level == "" {
		verb = "delete"
	}
	if err := (access{c}).admit(w.By, "Microsoft.Authorization/locks/"+verb, id); err != nil {
		return err
	}
	if l.Level != "" && l.Level != "CanNotDelete" && l.Level != "ReadOnly" {
		return document.BadRequest("InvalidLockLevel", "The level '%s' of the lock is neither CanNotDelete nor ReadOnly.", l.Level)
	}
	c.locks = slices.DeleteFunc(slices.Clone(c.locks), func(o Lock) bool {
		return strings.EqualFold(o.Name, l.Name) && strings.EqualFold(o.Scope, l.Scope)
	})
	if l.Level != "" {
		c.locks = append(c.locks, l)
	}
	return nil
}
