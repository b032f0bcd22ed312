package controlplane

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// administrators is the group of the administrator's certificate, and the name of the
// ClusterRoleBinding that lets it do everything. Unlike system:masters, which RBAC is not asked
// about, its rights are visible and can be taken away.
const administrators = "nephele:administrators"

// bindAdministrators makes sure that the group may do everything. Other subjects of the binding
// stay.
func bindAdministrators(ctx context.Context, client kubernetes.Interface) error {
	want := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: administrators},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: administrators}},
	}
	bindings := client.RbacV1().ClusterRoleBindings()
	have, err := bindings.Get(ctx, administrators, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = bindings.Create(ctx, want, metav1.CreateOptions{FieldManager: fieldManager})
	case err != nil:
	case have.RoleRef != want.RoleRef: // which no one can change in a binding
		if err = bindings.Delete(ctx, administrators, metav1.DeleteOptions{}); err == nil {
			_, err = bindings.Create(ctx, want, metav1.CreateOptions{FieldManager: fieldManager})
		}
	case !slices.Contains(have.Subjects, want.Subjects[0]):
		have.Subjects = append(have.Subjects, want.Subjects[0])
		_, err = bindings.Update(ctx, have, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("bind the administrators: %w", err)
	}
	return nil
}

// mayDoEverything reports whether the API server already knows that this client may do everything:
// it learns of bindings a moment after they are made.
func mayDoEverything(ctx context.Context, client kubernetes.Interface) bool {
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}},
	}, metav1.CreateOptions{})
	return err == nil && review.Status.Allowed
}
