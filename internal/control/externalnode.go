package control

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/internal/control/convert"
)

// keepEntities makes the ExternalEntities that ExternalNodes of a namespace own be exactly those they stand for. An entity
// of the same name that nobody or somebody else owns is left alone.
func (c *Controller) keepEntities(ctx context.Context, namespace string) error {
	var nodes v1alpha1.ExternalNodeList
	if err := c.Client.List(ctx, &nodes, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing external nodes: %w", err)
	}
	var entities v1alpha2.ExternalEntityList
	if err := c.Client.List(ctx, &entities, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing external entities: %w", err)
	}
	wanted := map[string]*v1alpha2.ExternalEntity{}
	for i := range nodes.Items {
		if nodes.Items[i].DeletionTimestamp.IsZero() {
			if x := convert.EntityOfExternalNode(&nodes.Items[i]); x != nil {
				wanted[x.Name] = x
			}
		}
	}
	for i := range entities.Items {
		have := &entities.Items[i]
		want, ok := wanted[have.Name]
		delete(wanted, have.Name)
		owner := externalNodeOwner(have)
		switch {
		case owner == nil:
		case !ok:
			if err := c.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting the external entity %s/%s: %w", namespace, have.Name, err)
			}
		case owner.Name != want.OwnerReferences[0].Name:
		case !equality.Semantic.DeepEqual(have.Spec, want.Spec) || !equality.Semantic.DeepEqual(have.Labels, want.Labels) || owner.UID != want.OwnerReferences[0].UID:
			have.Spec, have.Labels, have.OwnerReferences = want.Spec, want.Labels, want.OwnerReferences
			if err := c.Client.Update(ctx, have); err != nil {
				return fmt.Errorf("updating the external entity %s/%s: %w", namespace, have.Name, err)
			}
		}
	}
	for _, want := range wanted {
		if err := c.Client.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the external entity %s/%s: %w", namespace, want.Name, err)
		}
	}
	return nil
}

// externalNodeOwner is the ExternalNode that owns an entity, if one does.
func externalNodeOwner(x *v1alpha2.ExternalEntity) *metav1.OwnerReference {
	if len(x.OwnerReferences) == 0 || x.OwnerReferences[0].Kind != "ExternalNode" {
		return nil
	}
	return &x.OwnerReferences[0]
}
