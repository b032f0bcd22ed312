package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/internal/convert"
)

// takenNames holds, by namespace, the ExternalNodes that have no ExternalEntity because an entity
// of another owner has the name, and the problem that was reported of each.
type takenNames struct {
	mu   sync.Mutex
	told map[string]map[string]string
}

// replace takes the nodes of a namespace and returns the new ones.
func (c *takenNames) replace(namespace string, now map[string]string) (fresh []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(now)) {
		if c.told[namespace][node] != now[node] {
			fresh = append(fresh, node)
		}
	}
	if c.told == nil {
		c.told = map[string]map[string]string{}
	}
	if c.told[namespace] = now; len(now) == 0 {
		delete(c.told, namespace)
	}
	return fresh
}

// keepEntities makes exactly the ExternalEntities that the ExternalNodes of a namespace need. An
// entity of the same name that has another owner or none is left alone, and the ExternalNode gets
// an event.
func (c *Controller) keepEntities(ctx context.Context, namespace string) error {
	var nodes v1alpha1.ExternalNodeList
	if err := c.Options.Client.List(ctx, &nodes, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing external nodes: %w", err)
	}
	var entities v1alpha2.ExternalEntityList
	if err := c.Options.Client.List(ctx, &entities, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing external entities: %w", err)
	}
	wanted, taken := wantedEntities(nodes.Items, entities.Items)
	for i := range entities.Items {
		have := &entities.Items[i]
		want, ok := wanted[have.Name]
		delete(wanted, have.Name)
		owner := externalNodeOwner(have)
		switch {
		case owner == nil:
			if ok {
				taken[want.OwnerReferences[0].Name] = takenText(have.Name, "is there already and belongs to no ExternalNode")
			}
		case !ok:
			if err := c.Options.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting the external entity %s/%s: %w", namespace, have.Name, err)
			}
		case owner.Name != want.OwnerReferences[0].Name:
			taken[want.OwnerReferences[0].Name] = takenText(have.Name, "belongs to ExternalNode "+owner.Name)
		case !equality.Semantic.DeepEqual(have.Spec, want.Spec) || !equality.Semantic.DeepEqual(have.Labels, want.Labels) || owner.UID != want.OwnerReferences[0].UID:
			have.Spec, have.Labels, have.OwnerReferences = want.Spec, want.Labels, want.OwnerReferences
			if err := c.Options.Client.Update(ctx, have); err != nil {
				return fmt.Errorf("updating the external entity %s/%s: %w", namespace, have.Name, err)
			}
		}
	}
	for _, want := range wanted {
		if err := c.Options.Client.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the external entity %s/%s: %w", namespace, want.Name, err)
		}
	}
	c.tellTaken(nodes.Items, namespace, taken)
	return nil
}

// wantedEntities returns the entities that the nodes need, by name, and by node the reason why it
// has none. If two nodes need one entity, the node that owns it gets it, else the first by name.
func wantedEntities(nodes []v1alpha1.ExternalNode, entities []v1alpha2.ExternalEntity) (wanted map[string]*v1alpha2.ExternalEntity, taken map[string]string) {
	owners := map[string]string{}
	for i := range entities {
		if owner := externalNodeOwner(&entities[i]); owner != nil {
			owners[entities[i].Name] = owner.Name
		}
	}
	slices.SortFunc(nodes, func(a, b v1alpha1.ExternalNode) int { return strings.Compare(a.Name, b.Name) })
	wanted, taken = map[string]*v1alpha2.ExternalEntity{}, map[string]string{}
	for i := range nodes {
		x := convert.EntityOfExternalNode(&nodes[i])
		if x == nil || !nodes[i].DeletionTimestamp.IsZero() {
			continue
		}
		if first := wanted[x.Name]; first != nil {
			if owners[x.Name] != nodes[i].Name {
				first, x = x, first
			}
			taken[first.OwnerReferences[0].Name] = takenText(x.Name, "stands for ExternalNode "+x.OwnerReferences[0].Name)
		}
		wanted[x.Name] = x
	}
	return wanted, taken
}

// takenText says why an ExternalNode has no ExternalEntity. An ExternalNode has no status to say it
// in.
func takenText(entity, whose string) string {
	return "no policy is enforced on this ExternalNode: the ExternalEntity " + entity + " " + whose + "; rename or delete one of the two"
}

// tellTaken reports each ExternalNode without ExternalEntity once.
func (c *Controller) tellTaken(nodes []v1alpha1.ExternalNode, namespace string, taken map[string]string) {
	for _, name := range c.takenNames.replace(namespace, taken) {
		c.Options.Logger.Info("An ExternalNode has no ExternalEntity", "namespace", namespace, "externalNode", name, "reason", taken[name])
		for i := range nodes {
			if nodes[i].Name == name {
				c.event(&nodes[i], corev1.EventTypeWarning, "EntityNotMade", "KeepEntities", taken[name])
			}
		}
	}
}

// externalNodeOwner is the ExternalNode that owns an entity, if one does.
func externalNodeOwner(x *v1alpha2.ExternalEntity) *metav1.OwnerReference {
	if len(x.OwnerReferences) == 0 || x.OwnerReferences[0].Kind != "ExternalNode" {
		return nil
	}
	return &x.OwnerReferences[0]
}
