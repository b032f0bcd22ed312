package rolecmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cloud/aws/rights"
)

// What AWS takes, in characters without white space.
const (
	longestManagedPolicy = 6144
	longestInlinePolicy  = 10240 // of a role, all of them together
)

func newIAMPolicyCommand(notes Notes) *cobra.Command {
	pins, mode := rights.Pins{}, string(rights.Enforce)
	c := &cobra.Command{
		Use:   "iam-policy --cluster ID [--vpc ID...] [--region NAME...] [--mode plan|enforce] [--services|--only-services] [--flow-logs BUCKET[/PREFIX]...] [--node-routes RTB...]",
		Short: "Print the IAM policy that an AWS account needs",
		Long: `Print an IAM policy with the fewest rights that Nephele works with, for the user whose keys an account's Secret holds, or for the
role that it names. The flags narrow it to a cluster, to VPCs and to regions.

The id of a cluster is the uid of its namespace kube-system:
  kubectl get namespace kube-system -o jsonpath={.metadata.uid}
docs/reference/rights.md explains each statement.`,
		Example: `  nephele iam-policy --cluster "$(kubectl get namespace kube-system -o jsonpath={.metadata.uid})" --region eu-west-1
  nephele iam-policy --cluster ID --vpc vpc-0123456789abcdef0 --region eu-west-1 --account-id 111122223333
  nephele iam-policy --mode plan`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pins.Mode = rights.Mode(mode)
			// What is printed is wider without these, and a command line that asks a cluster gives
			// nothing where it cannot be asked.
			for name, given := range map[string]bool{"cluster": pins.Cluster != "", "account-id": pins.Account != "", "vpc": len(pins.Networks) > 0, "region": len(pins.Regions) > 0} {
				if cmd.Flags().Changed(name) && !given {
					return fmt.Errorf("--%s is empty; leave it out for a policy that is not narrowed by it", name)
				}
			}
			if err := pins.Check(); err != nil {
				return fmt.Errorf("--%w", err)
			}
			policy, err := rights.Document(pins)
			if err != nil {
				return err
			}
			length := rights.Length(policy)
			if length > longestInlinePolicy {
				return fmt.Errorf("the policy has %d characters, and AWS takes %d: name fewer VPCs, and make several policies", length, longestInlinePolicy)
			}
			notes(cmd, notesOnPolicy(pins, length))
			_, err = cmd.OutOrStdout().Write(policy)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&pins.Cluster, "cluster", "", "id of the cluster whose security groups may be changed")
	f.StringSliceVar(&pins.Networks, "vpc", nil, "VPCs in which something may be changed (default all)")
	f.StringSliceVar(&pins.Regions, "region", nil, "regions in which anything may be done (default all)")
	f.StringVar(&pins.Account, "account-id", "", "number of the AWS account that security groups and interfaces belong to (default any)")
	f.BoolVar(&pins.Services, "services", false, "also read native services: databases, load balancers, endpoints and the like; to enforce, also set their security groups")
	f.BoolVar(&pins.OnlyServices, "only-services", false, "only what --services adds, as a second policy beside the one without it")
	f.StringSliceVar(&pins.FlowLogs, "flow-logs", nil, "buckets, each with its prefix, that flow logs are read out of")
	f.StringSliceVar(&pins.RouteTables, "node-routes", nil, "route tables that routes to Nodes are written into")
	f.StringVar(&mode, "mode", mode, "plan to look only, or enforce")
	return c
}

// notesOnPolicy are for the person who attaches the policy.
func notesOnPolicy(p rights.Pins, length int) []string {
	var out []string
	switch {
	case p.Mode == rights.Plan && (p.Cluster != "" || p.Account != "" || len(p.Networks) > 0):
		out = append(out, "AWS cannot narrow reading to a cluster, an account or VPCs: --cluster, --account-id and --vpc change nothing with --mode plan")
	case p.Mode == rights.Enforce && p.Cluster == "":
		out = append(out, "the policy permits to change the security groups of every cluster: --cluster ID narrows it to one")
	}
	if length > longestManagedPolicy {
		note := fmt.Sprintf("the policy has %d characters, and AWS takes %d in a managed policy: attach it as an inline policy of the role", length, longestManagedPolicy)
		if p.Services {
			note += ", or print two policies, one without --services and one with --only-services in its place"
		}
		out = append(out, note)
	}
	return out
}
