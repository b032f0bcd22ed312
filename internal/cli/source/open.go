package source

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/preview"
)

// Opener takes the credentials of accounts from manifests, or else from the cluster.
func Opener(c client.Reader, secrets []*corev1.Secret, parts clouds.Parts) preview.Opener {
	return func(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (preview.Reader, error) {
		config, ref := accountspec.ConfigOf(a)
		if ref == nil {
			return nil, fmt.Errorf("secretRef is missing")
		}
		value, err := secretValue(ctx, c, secrets, *ref)
		if err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
		row, supported := clouds.Of(config.Cloud)
		if !supported {
			return nil, fmt.Errorf("accounts of %s are not supported", config.Cloud)
		}
		open, err := row.Open(ctx, parts)
		if err != nil {
			return nil, err
		}
		config.Owner, config.Queues, config.SecretValue = "", nil, value
		return open(config)
	}
}

// secretValue reads what a key of a Secret holds. In manifests it may be in stringData, as the API
// server takes it.
func secretValue(ctx context.Context, c client.Reader, secrets []*corev1.Secret, ref cloudv1alpha1.SecretReference) ([]byte, error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if i := slices.IndexFunc(secrets, func(s *corev1.Secret) bool { return client.ObjectKeyFromObject(s) == key }); i >= 0 {
		if text, ok := secrets[i].StringData[ref.Key]; ok {
			return []byte(text), nil
		}
		return secrets[i].Data[ref.Key], nil
	}
	var secret corev1.Secret
	if err := c.Get(ctx, key, &secret); err != nil {
		return nil, err
	}
	return secret.Data[ref.Key], nil
}

// PlanOver plans for a cluster with the manifests in files applied to it. What of these admission
// would refuse is in In.Refused of the Planner.
func PlanOver(ctx context.Context, c client.Reader, files []string, stdin io.Reader, access clouds.Access) (*preview.Planner, error) {
	id, err := clouds.ClusterID(ctx, c)
	if err != nil {
		return nil, err
	}
	in, err := Inputs(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(files) > 0 {
		over, err := preview.ReadManifests(files, stdin, in.Objects.Tiers)
		if err != nil {
			return nil, err
		}
		in.Overlay(over)
	}
	open := Opener(c, in.Secrets, clouds.Parts{Cluster: id, Access: access})
	return &preview.Planner{In: in, ClusterID: id, Lowerers: clouds.LowererOf, Open: open, Close: func() {}}, nil
}
