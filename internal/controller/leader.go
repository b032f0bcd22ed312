package controller

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// LabelLeader is on the Pod of the replica that leads, and the Service selects it. The other
// replicas are ready, and serve no caller.
const LabelLeader = "nephele.io/leader"

// The Pods of the controller have this label.
const podLabel, podLabelValue = "app.kubernetes.io/name", "nephele"

// leaderRetry is the pause after the label could not be written, leaderEnd bounds the last attempt.
const leaderRetry, leaderEnd = time.Second, 2 * time.Second

// leaderLabel keeps LabelLeader on the Pod of this process while that leads, and off the others.
type leaderLabel struct {
	kube    kubernetes.Interface
	pod     types.NamespacedName
	elected <-chan struct{}
	log     logr.Logger
}

// showLeader adds the label to what the manager does, if this process runs in a Pod and serves.
func showLeader(mgr manager.Manager, o Options) error {
	pod := types.NamespacedName{Namespace: os.Getenv(envPodNamespace), Name: os.Getenv(envPodName)}
	if o.API == nil || pod.Name == "" || pod.Namespace == "" {
		return nil
	}
	kube, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	l := leaderLabel{kube: kube, pod: pod, elected: mgr.Elected(), log: o.Log.WithName("leader")}
	if err := mgr.Add(everywhere{manager.RunnableFunc(l.run)}); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	return nil
}

// run works until ctx ends. A container that was started again finds the label of its predecessor.
func (l leaderLabel) run(ctx context.Context) error {
	if err := l.put(ctx, l.pod.Name, false); err != nil {
		l.log.V(1).Info("The label of the Pod could not be removed", "error", err.Error())
	}
	select {
	case <-ctx.Done():
		return nil
	case <-l.elected:
	}
	told := ""
	for {
		err := l.lead(ctx)
		if err == nil || ctx.Err() != nil {
			break
		}
		if told != err.Error() {
			told = err.Error()
			l.log.Error(err, "Others cannot be led to this replica, trying again", "label", LabelLeader, "pod", l.pod.String())
		}
		select {
		case <-ctx.Done():
		case <-time.After(leaderRetry):
		}
	}
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaderEnd)
	defer cancel()
	if err := l.put(end, l.pod.Name, false); err != nil {
		l.log.V(1).Info("The label of the Pod could not be removed", "error", err.Error())
	}
	return nil
}

// lead puts the label on this Pod, and removes it from the Pods of replicas that died with it.
func (l leaderLabel) lead(ctx context.Context) error {
	if err := l.put(ctx, l.pod.Name, true); err != nil {
		return err
	}
	former, err := l.kube.CoreV1().Pods(l.pod.Namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelLeader + "," + podLabel + "=" + podLabelValue})
	if err != nil {
		return fmt.Errorf("find the Pods of replicas that led: %w", err)
	}
	for i := range former.Items {
		if name := former.Items[i].Name; name != l.pod.Name {
			if err := l.put(ctx, name, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// put brings the label of a Pod in line. A Pod that is gone has none.
func (l leaderLabel) put(ctx context.Context, pod string, leads bool) error {
	value := "null"
	if leads {
		value = `"true"`
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, LabelLeader, value)
	_, err := l.kube.CoreV1().Pods(l.pod.Namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && (leads || !apierrors.IsNotFound(err)) {
		return fmt.Errorf("label Pod %s/%s: %w", l.pod.Namespace, pod, err)
	}
	return nil
}
