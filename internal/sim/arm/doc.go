// Package arm speaks the protocols of Azure over the Azure side of a world.World: the login of
// Microsoft Entra ID (OpenID configuration, tokens for client secrets, certificates and federated
// tokens), the metadata service's tokens for managed identities, Azure Resource Manager, and the
// queries of Resource Graph.
//
// One Handler serves all tenants and subscriptions; login and Resource Manager do not collide and
// share the door. Beyond the protocols it can throttle like the service (Throttle), disturb chosen
// calls (calls.Faults), wait (Latency), and it keeps a calls.Journal. A call's Action is the name
// that Azure gives the operation, as in Microsoft.Network/networkInterfaces/write; its Account is
// the subscription.
//
// A Handler, and each of its parts, may be used by any number of goroutines. It starts none itself.
// What the answer of a call says has been true at one moment between its arrival and its answer.
package arm
