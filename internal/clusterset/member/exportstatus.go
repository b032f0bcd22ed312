package member

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/policy"
)

// The condition of the MCS-API that a ServiceExport is valid, and its reasons.
const (
	exportValid         = "Valid"
	reasonValid         = "Valid"
	reasonNoService     = "NoService"
	reasonNoServiceType = "InvalidServiceType"
	// ourMark begins the messages of conditions that are ours. A condition without it is another
	// program's, which implements the MCS-API here, and stays.
	ourMark = "nephele: "
)

// exportsAtOnce is how many ServiceExports are written at a time.
const exportsAtOnce = 20

// judge notes that a ServiceExport may not say what is so. The lock of the Member is held.
func (s *services) judge(name policy.NamespacedName) {
	if s.exported[name] {
		s.unjudged[name] = struct{}{}
	} else {
		delete(s.unjudged, name)
	}
}

// validity is what the condition of a ServiceExport says.
func (s *services) validity(name policy.NamespacedName) metav1.Condition {
	c := metav1.Condition{Type: exportValid, Status: metav1.ConditionFalse}
	switch o := s.all[name]; {
	case o == nil:
		c.Reason, c.Message = reasonNoService, ourMark+"there is no Service of this name"
	case o.Spec.Type == corev1.ServiceTypeExternalName:
		c.Reason, c.Message = reasonNoServiceType, ourMark+"a Service of type ExternalName has no endpoints"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasonValid, ourMark+"policies of the set may name it"
	}
	return c
}

// writeExports writes into ServiceExports whether they are valid, where no other program does. What
// could not be written is tried again.
func writeExports(ctx context.Context, m *Member) {
	m.mu.Lock()
	s := m.services
	due := map[policy.NamespacedName]metav1.Condition{}
	if s.complete && m.state.membership != nil {
		for name := range s.unjudged {
			if len(due) < exportsAtOnce {
				due[name] = s.validity(name)
				delete(s.unjudged, name)
			}
		}
	}
	version := s.version
	m.mu.Unlock()
	for _, name := range slices.SortedFunc(maps.Keys(due), func(a, b policy.NamespacedName) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	}) {
		err := writeExport(ctx, m.Live, m.Client, version, name, due[name], metav1.NewTime(m.Clock.Now()))
		switch {
		case err == nil, apierrors.IsNotFound(err), meta.IsNoMatchError(err), ctx.Err() != nil: // it is gone, or has no status
		case apierrors.IsForbidden(err):
			m.Log.V(1).Info("The status of a ServiceExport may not be written: apply config/overlays/cluster-set again", "namespace", name.Namespace, "name", name.Name)
		default:
			m.Log.V(1).Info("The status of a ServiceExport was not written, trying again", "namespace", name.Namespace, "name", name.Name, "reason", err.Error())
			m.mu.Lock()
			s.judge(name)
			m.mu.Unlock()
		}
	}
}

func writeExport(ctx context.Context, live client.Reader, c client.Client, version string, name policy.NamespacedName, want metav1.Condition, now metav1.Time) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: version, Kind: "ServiceExport"})
	if err := live.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: name.Name}, o); err != nil {
		return err
	}
	var status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}
	content, _, err := unstructured.NestedMap(o.Object, "status")
	if err == nil && content != nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)
	}
	if err != nil {
		return nil // somebody else's, in a form that is not ours
	}
	if present := meta.FindStatusCondition(status.Conditions, exportValid); present != nil && !strings.HasPrefix(present.Message, ourMark) {
		return nil
	}
	want.LastTransitionTime, want.ObservedGeneration = now, o.GetGeneration()
	if !meta.SetStatusCondition(&status.Conditions, want) {
		return nil
	}
	list := make([]any, 0, len(status.Conditions))
	for i := range status.Conditions {
		one, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status.Conditions[i])
		if err != nil {
			return err
		}
		list = append(list, one)
	}
	if err := unstructured.SetNestedSlice(o.Object, list, "status", "conditions"); err != nil {
		return err
	}
	return c.Status().Update(ctx, o)
}
