package nodenetwork

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/platform/errtext"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// publishLimit bounds how long it takes to tell others the key of the Node.
const publishLimit = 10 * time.Second

// Keys are the key of a Node, and the next one: wireguard.Keys are some.
type Keys interface {
	Public() network.PublicKey
	// Next is the key that is to count when others were told of it; the zero one for none.
	Next() network.PublicKey
	Renew() (network.PublicKey, error)
	Change(to network.PublicKey) error
}

// IPsec is what encrypts by IPsec; an ipsec.Device does.
type IPsec interface {
	// Identity is what the certificate of the Node says; empty while there is none.
	Identity() string
	// Problems are why packets to some Nodes are not encrypted, sorted.
	Problems() []string
	// Run keeps it going until ctx ends. wanted is the identity that the Node is to have, empty
	// while that is not known, and wake is called when the device is to be looked at.
	Run(ctx context.Context, wanted func() string, wake func())
}

// Published is what a Node publishes that it has to encrypt by.
type Published struct {
	// Key is the public key of WireGuard, and Identity what the certificate for IPsec says; empty
	// for none.
	Key, Identity string
}

// publishedBy is what a Node publishes.
func publishedBy(n *corev1.Node) Published {
	return Published{n.Annotations[cloudv1alpha1.AnnotationWireGuardKey], n.Annotations[cloudv1alpha1.AnnotationIPsecIdentity]}
}

// wantedIdentity is the identity that the Node is to have; empty while it is not known.
func (n *Network) wantedIdentity() string {
	o, _, err := n.nodes.GetByKey(n.Node)
	node, ok := o.(*corev1.Node)
	if err != nil || !ok {
		return ""
	}
	return cloudv1alpha1.IPsecIdentity(node.Name, node.UID)
}

// Makes reports whether the agent makes the network of the Node.
func (n *Network) Makes() bool { return n.Config.Mode != network.PolicyOnly }

// keepKey keeps others told of by what the Node encrypts until ctx ends.
func (n *Network) keepKey(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.keyNews:
		case <-n.Clock.After(networkInterval):
		}
		err := recovered.Call(func() error { return n.tellKey(ctx) })
		n.mu.Lock()
		if text := errtext.Of(err); text != n.sealing.untold {
			if n.sealing.untold = text; err != nil {
				n.Log.Error(err, "Other Nodes are not told by what this one encrypts, trying again")
			}
		}
		n.mu.Unlock()
	}
}

// tellKey tells others the key and the identity of the Node if they do not know it, and makes the
// next key count when they do. Where nothing is encrypted they are told of none.
func (n *Network) tellKey(ctx context.Context) error {
	if !n.run.HasSynced() {
		return nil
	}
	o, there, err := n.nodes.GetByKey(n.Node)
	node, ok := o.(*corev1.Node)
	if err != nil || !there || !ok {
		return err
	}
	want, next := Published{}, network.PublicKey{}
	if n.Keys != nil {
		want.Key, next = n.Keys.Public().String(), n.Keys.Next()
	}
	if next != (network.PublicKey{}) {
		want.Key = next.String()
	}
	if n.IPsec != nil {
		want.Identity = n.IPsec.Identity()
	}
	if publishedBy(node) != want {
		ctx, cancel := context.WithTimeout(ctx, publishLimit)
		defer cancel()
		if err := n.Publish(ctx, want); err != nil {
			return err
		}
	}
	if next == (network.PublicKey{}) {
		return nil
	}
	n.Log.Info("The key of WireGuard of this Node is a new one", "key", want.Key)
	if err := n.Keys.Change(next); err != nil {
		return err
	}
	n.poke()
	return nil
}

// RenewKey gives the Node a new key, which counts as soon as others were told of it.
func (n *Network) RenewKey() (network.PublicKey, error) {
	key, err := n.Keys.Renew()
	n.poke()
	return key, err
}
