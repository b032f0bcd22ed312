package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

const (
	// completionTimeout bounds how long a person waits for names after a tab.
	completionTimeout = 3 * time.Second
	// mostCompletions bounds the names that are read of a kind.
	mostCompletions = 500
)

// completion offers names of objects of the cluster.
type completion func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// names completes with what list finds in the cluster that the command's flags name.
func names(list func(ctx context.Context, c client.Reader) ([]string, error)) completion {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		var f source.ClusterFlags
		f.Kubeconfig, _ = cmd.Flags().GetString("kubeconfig")
		f.Context, _ = cmd.Flags().GetString("context")
		c, err := f.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		all, err := list(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return matching(all, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// matching are the names that begin as what is typed, which may be a list of which only the last is
// unfinished.
func matching(all []string, typed string) []string {
	done, last := "", typed
	if at := strings.LastIndexByte(typed, ','); at >= 0 {
		done, last = typed[:at+1], typed[at+1:]
	}
	var out []string
	for _, name := range all {
		if strings.HasPrefix(name, last) && terminal.Printable(name) == name {
			out = append(out, done+name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func accountNames(ctx context.Context, c client.Reader) ([]string, error) {
	var l cloudv1.CloudProviderAccountList
	err := c.List(ctx, &l, client.Limit(mostCompletions))
	var out []string
	for i := range l.Items {
		out = append(out, l.Items[i].Namespace+"/"+l.Items[i].Name)
	}
	return out, err
}

func vmNames(ctx context.Context, c client.Reader) ([]string, error) {
	var l cloudv1.VirtualMachineList
	err := c.List(ctx, &l, client.Limit(mostCompletions))
	var out []string
	for i := range l.Items {
		vm := &l.Items[i]
		out = append(out, vm.Namespace+"/"+vm.Name)
		if n := vm.Status.CloudName; n != "" && !strings.ContainsAny(n, " \t/") {
			out = append(out, vm.Namespace+"/"+n)
		}
	}
	return out, err
}

func policyNames(ctx context.Context, c client.Reader) ([]string, error) {
	var own v1beta1.NetworkPolicyList
	var cluster v1beta1.ClusterNetworkPolicyList
	if err := c.List(ctx, &own, client.Limit(mostCompletions)); err != nil {
		return nil, err
	}
	err := c.List(ctx, &cluster, client.Limit(mostCompletions))
	var out []string
	for i := range own.Items {
		out = append(out, own.Items[i].Namespace+"/"+own.Items[i].Name)
	}
	for i := range cluster.Items {
		out = append(out, cluster.Items[i].Name)
	}
	return out, err
}

// completeValues makes the shell offer names from the cluster where commands below root ask for
// them.
func completeValues(root *cobra.Command) {
	flags := map[string]completion{"account": names(accountNames), "from": names(vmNames), "to": names(vmNames), "vm": names(vmNames), "for-policies": names(policyNames)}
	for _, cmd := range root.Commands() {
		if cmd.Name() == "take-over" {
			cmd.ValidArgsFunction = names(accountNames)
		}
		for name, complete := range flags {
			if cmd.Flags().Lookup(name) != nil {
				// A command may have said something better of its own flag; then that stays.
				_ = cmd.RegisterFlagCompletionFunc(name, complete)
			}
		}
		if f := cmd.Flags().Lookup("output"); f != nil {
			_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveNoFileComp))
		}
		completeValues(cmd)
	}
}

// pluginName is the name under which kubectl runs this binary as "kubectl nephele", and
// completerName that under which it asks for completions.
const (
	pluginName    = "kubectl-nephele"
	completerName = "kubectl_complete-nephele"
)

// calledBy fits the command line to how the binary was called: as a plugin of kubectl it names
// itself so, and as the completer of the plugin it completes.
func calledBy(program string, root *cobra.Command, args []string) []string {
	switch filepath.Base(program) {
	case pluginName:
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl nephele"}
	case completerName:
		return append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return args
}

// newPluginCommand returns the command that makes "kubectl nephele" work.
func newPluginCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "kubectl-plugin --dir DIR",
		Short: "Make this binary available as kubectl nephele",
		Long: `Make this binary available as kubectl nephele: it puts two links to it into a directory, ` + pluginName + ` for the commands and
` + completerName + ` for completion. The directory must be in the PATH. Links that are there already are left alone.`,
		Example: "  nephele kubectl-plugin --dir ~/.local/bin\n  kubectl nephele status",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return link(cmd.OutOrStdout(), self, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "directory for the links")
	return cmd
}

func link(out io.Writer, binary, dir string) error {
	for _, name := range []string{pluginName, completerName} {
		path := filepath.Join(dir, name)
		if there, err := os.Readlink(path); err == nil && there == binary {
			continue
		}
		if err := os.Symlink(binary, path); err != nil {
			return err
		}
		if _, err := io.WriteString(out, path+"\n"); err != nil {
			return err
		}
	}
	return nil
}
