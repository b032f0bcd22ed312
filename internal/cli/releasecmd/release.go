package releasecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// The bounds of how long a release lasts that ends by itself. What is to last longer is no
// emergency: that is what the mode "released" is for.
const (
	shortest = time.Minute
	usual    = 2 * time.Hour
	longest  = 7 * 24 * time.Hour
)

// maxReason bounds the reason, in bytes. It stands in the status of all that is concerned.
const maxReason = 500

// Needs are what the command takes from the others.
type Needs struct {
	// Register adds the flags that say which cluster it is; Client returns it when they are known.
	Register func(*pflag.FlagSet)
	Client   func() (client.Client, error)
	// Printable makes text that came from elsewhere fit for a terminal.
	Printable func(string) string
	Now       func() time.Time
}

// order is what somebody wants.
type order struct {
	namespace, name string
	selector        bool
	reason          string
	lasts           time.Duration
	endless, end    bool
}

// check says what is wrong with an order.
func (o order) check(given *pflag.FlagSet) error {
	switch {
	case o.namespace == "" || o.name == "" || strings.Contains(o.name, "/"):
		return errors.New("say what: NAMESPACE/NAME")
	case o.end && (o.reason != "" || o.endless || given.Changed("for")):
		return errors.New("--end ends a release; --reason, --for and --endless are for one that begins")
	case o.end:
		return nil
	case strings.TrimSpace(o.reason) == "":
		return errors.New("--reason is missing: say why, for readers of the status")
	case len(o.reason) > maxReason:
		return fmt.Errorf("--reason has %d bytes; at most %d", len(o.reason), maxReason)
	case o.endless && given.Changed("for"):
		return errors.New("--for and --endless: give one of them")
	case !o.endless && (o.lasts < shortest || o.lasts > longest):
		return fmt.Errorf("--for %s: want %s to %s; what is to last longer has the mode \"released\" in its selector, or is --endless", o.lasts, shortest, longest)
	}
	return nil
}

// Command returns the command.
func Command(n Needs) *cobra.Command {
	var o order
	cmd := &cobra.Command{
		Use:   "release NAMESPACE/NAME --reason TEXT [--for DURATION]",
		Short: "Release a VM or a native service in an emergency, or end that",
		Long: `Release a VM, a native service or an interface in an emergency (break-glass): it gets its own security groups back at once, and no policy is
enforced on it until the release ends. It ends by itself, after two hours unless --for says otherwise, and with --end before that.

NAME is that of the VirtualMachine, CloudNativeService or NetworkInterface, or what it is called in the cloud. With --selector it is a
CloudEntitySelector, and all that it selects is released. Only who has the verb "breakglass" on the object may do it, and it counts where the account's owner has given the
namespace a say.`,
		Example: `  nephele release shop/web-2 --reason "nobody can log in, INC-4711"
  nephele release shop/web-2 --reason "still INC-4711" --for 8h
  nephele release shop/orders-db --reason "the application is cut off, INC-4711"
  nephele release shop/production --selector --reason "INC-4712" --for 30m
  nephele release shop/web-2 --end`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.namespace, o.name, _ = strings.Cut(args[0], "/")
			}
			if err := o.check(cmd.Flags()); err != nil {
				return err
			}
			c, err := n.Client()
			if err != nil {
				return err
			}
			stated, err := o.carryOut(cmd.Context(), c, n.Now())
			if err != nil {
				return err
			}
			for _, line := range stated {
				fmt.Fprintln(cmd.OutOrStdout(), n.Printable(line))
			}
			return nil
		},
	}
	n.Register(cmd.Flags())
	f := cmd.Flags()
	f.BoolVar(&o.selector, "selector", false, "NAME is a CloudEntitySelector: release all that it selects")
	f.StringVar(&o.reason, "reason", "", "why, for readers of the status")
	f.DurationVar(&o.lasts, "for", usual, fmt.Sprintf("how long it lasts, %s to %s; then policies are enforced again", shortest, longest))
	f.BoolVar(&o.endless, "endless", false, "it lasts until somebody ends it")
	f.BoolVar(&o.end, "end", false, "end the release: policies are enforced again")
	return cmd
}

// carryOut writes the annotations and returns what to say.
func (o order) carryOut(ctx context.Context, c client.Client, now time.Time) ([]string, error) {
	target, what, err := o.find(ctx, c)
	if err != nil {
		return nil, err
	}
	_, kept := target.GetAnnotations()[cloudv1.AnnotationBreakGlass]
	if o.end && !kept {
		return []string{what + " is not released in an emergency; nothing was changed."}, nil
	}
	var why, until *string
	var end time.Time
	if !o.end {
		why = &o.reason
		if !o.endless {
			end = now.Add(o.lasts).UTC().Truncate(time.Second)
			until = new(end.Format(time.RFC3339))
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{
		cloudv1.AnnotationBreakGlass: why, cloudv1.AnnotationBreakGlassUntil: until,
	}}})
	if err != nil {
		return nil, err
	}
	if err := c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	argument := o.namespace + "/" + o.name
	if o.selector {
		argument += " --selector"
	}
	switch {
	case o.end:
		return []string{what + ": the release is over, and policies are enforced again."}, nil
	case o.endless:
		return []string{what + " is released, until somebody ends it: nephele release " + argument + " --end"}, nil
	}
	return []string{
		fmt.Sprintf("%s is released until %s (%s).", what, end.Format(time.RFC3339), duration.HumanDuration(o.lasts)),
		"To end it before: nephele release " + argument + " --end",
	}, nil
}

// find returns the object, and what it is called.
func (o order) find(ctx context.Context, c client.Client) (client.Object, string, error) {
	key := client.ObjectKey{Namespace: o.namespace, Name: o.name}
	if o.selector {
		var s cloudv1.CloudEntitySelector
		if err := c.Get(ctx, key, &s); err != nil {
			return nil, "", err
		}
		return &s, "CloudEntitySelector " + key.String(), nil
	}
	for _, m := range []imported{
		{&cloudv1.VirtualMachine{}, "VirtualMachine", ""}, {&cloudv1.CloudNativeService{}, "CloudNativeService", ""}, {&cloudv1.NetworkInterface{}, "NetworkInterface", ""},
	} {
		switch err := c.Get(ctx, key, m.Object); {
		case err == nil:
			return m.Object, m.kind + " " + key.String(), nil
		case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err): // a former release serves VMs only
			return nil, "", err
		}
	}
	called, err := o.called(ctx, c)
	switch {
	case err != nil:
		return nil, "", err
	case len(called) == 0:
		return nil, "", fmt.Errorf("no VirtualMachine, CloudNativeService or NetworkInterface of namespace %s has the name %q, and none is called so in the cloud", o.namespace, o.name)
	case len(called) > 1:
		return nil, "", fmt.Errorf("%d in namespace %s are called %q: name one as it is in the cluster, such as %s %q", len(called), o.namespace, o.name, called[0].kind, called[0].GetName())
	}
	return called[0].Object, fmt.Sprintf("%s %s/%s (%s)", called[0].kind, o.namespace, called[0].GetName(), o.name), nil
}

// imported is an object that may be released, with what it is called in the cloud.
type imported struct {
	client.Object
	kind, cloudName string
}

// called are the objects of what is called so in the cloud.
func (o order) called(ctx context.Context, c client.Client) ([]imported, error) {
	var vms cloudv1.VirtualMachineList
	var services cloudv1.CloudNativeServiceList
	var interfaces cloudv1.NetworkInterfaceList
	for _, into := range []client.ObjectList{&vms, &services, &interfaces} {
		if err := c.List(ctx, into, client.InNamespace(o.namespace)); err != nil && !meta.IsNoMatchError(err) {
			return nil, err
		}
	}
	var all []imported
	for i := range vms.Items {
		all = append(all, imported{&vms.Items[i], "VirtualMachine", vms.Items[i].Status.CloudName})
	}
	for i := range services.Items {
		all = append(all, imported{&services.Items[i], "CloudNativeService", services.Items[i].Status.CloudName})
	}
	for i := range interfaces.Items {
		all = append(all, imported{&interfaces.Items[i], "NetworkInterface", interfaces.Items[i].Status.CloudName})
	}
	return slices.DeleteFunc(all, func(i imported) bool { return i.cloudName != o.name }), nil
}
