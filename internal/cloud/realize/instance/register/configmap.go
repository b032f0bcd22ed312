package register

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// RecordName is the name of the object of a ConfigMap.
const RecordName = "nephele-instance"

// ConfigMap is a Register in a ConfigMap. The server's resource versions see to it that two
// processes do not write over one another.
type ConfigMap struct {
	// Reader reads the cluster as it is now, not from a cache, and Writer writes to it.
	Reader client.Reader
	Writer client.Writer
	// Namespace is where the ConfigMap is.
	Namespace string
}

// Load implements Register.
func (c ConfigMap) Load(ctx context.Context) (tenure.Record, string, error) {
	var cm corev1.ConfigMap
	err := c.Reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: RecordName}, &cm)
	switch {
	case apierrors.IsNotFound(err):
		return tenure.Record{}, "", nil
	case err != nil:
		return tenure.Record{}, "", c.explain("read", err)
	}
	return tenure.ParseRecord(cm.Data), cm.ResourceVersion, nil
}

// Store implements Register.
func (c ConfigMap) Store(ctx context.Context, r tenure.Record, version string) (string, error) {
	cm := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: RecordName, ResourceVersion: version,
		Labels: map[string]string{"app.kubernetes.io/name": "nephele"}}, Data: r.Data()}
	var err error
	if version == "" {
		err = c.Writer.Create(ctx, &cm)
	} else {
		err = c.Writer.Update(ctx, &cm)
	}
	if err != nil {
		return "", c.explain("write", err)
	}
	return cm.ResourceVersion, nil
}

func (c ConfigMap) explain(verb string, err error) error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", ErrOvertaken, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return fmt.Errorf("%s ConfigMap %s/%s: %w", verb, c.Namespace, RecordName, err)
}
