package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

const (
	// calm is how long the cloud must not have changed before a look: one change of a policy is
	// many calls.
	calm = 500 * time.Millisecond
	// longest is how long a look is put off if it never is calm.
	longest = 5 * time.Second
)

// goOn takes up a story that was shown before on the same data directory.
func (s *story) goOn(ctx context.Context) error {
	s.heading("Going on")
	s.say("This data directory holds the policies of a story that was told before, so it is not told again (--once starts it over). The " +
		"simulator has another address now, which the account must know:")
	machines, err := vms(s.account.regionState())
	if err != nil {
		return err
	}
	s.machines = machines
	if err := s.applyAccounts(ctx); err != nil {
		return err
	}
	err = s.await(ctx, "the VMs are imported", func(ctx context.Context) (string, error) { return s.cluster.imported(ctx, s.machines, false) })
	if err != nil {
		return err
	}
	s.say("Who may open a connection to whom now:")
	if s.last, err = s.account.matrix(); err != nil {
		return err
	}
	s.print(s.last.Text(nil, s.screen.columns()))
	if s.lastData, err = s.account.dataMatrix(); err != nil {
		return err
	}
	s.print(s.lastData.Text(nil, s.screen.columns()))
	return nil
}

// reset takes back what a former story on the same data directory has left.
func (s *story) reset(ctx context.Context) error {
	s.heading("Starting over")
	s.say("This data directory holds the policies of a story that was told before. They are taken back first.")
	machines, err := vms(s.account.regionState())
	if err != nil {
		return err
	}
	s.machines = machines
	if err := s.applyAccounts(ctx); err != nil {
		return err
	}
	err = s.await(ctx, "the account can be read", s.cluster.accountReady)
	if err != nil {
		return err
	}
	for _, name := range []string{fileDatabases, fileSwitches, fileNoSSH} {
		if err := s.cluster.remove(ctx, s.file(name)); err != nil {
			return err
		}
	}
	if err := s.await(ctx, "the VMs are released", s.released); err != nil {
		return err
	}
	if err := s.leave(ctx); err != nil {
		return err
	}
	// The subscription was kept by the simulator as the former story left it.
	s.pristineAzure = azureObjects(s.account.azureState())
	return nil
}

// applyAccounts applies the accounts of a former story: the one on Azure, if it came to that.
func (s *story) applyAccounts(ctx context.Context) error {
	if err := s.apply(ctx, fileAccount); err != nil {
		return err
	}
	err := s.cluster.Get(ctx, types.NamespacedName{Namespace: namespace, Name: azureAccountName}, &cloudv1.CloudProviderAccount{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return s.apply(ctx, fileAzure)
}

// byHand says how to go on.
func (s *story) byHand(l login) {
	s.heading("Go on by hand")
	s.say("The policies stay in force. In another terminal:")
	core := ""
	for _, m := range s.machines {
		if m.name == core01 {
			core = m.id
		}
	}
	fmt.Fprintf(s.out, `
  export KUBECONFIG=%[1]s
  kubectl get vm,ee,cpa,ces,annp,acnp -A
  kubectl describe vm -n %[2]s %[3]s

  # core_01 is a switch again:
  kubectl apply -f %[4]s

  # Edit a policy and apply it, delete it, bring it back:
  kubectl apply -f %[5]s
  kubectl delete -f %[5]s

`, shellWord(s.session.Kubeconfig), namespace, core, shellWord(s.file(fileRoles)), shellWord(s.file(fileSwitches)))
	s.say("The cloud from its own side, with any EC2 client. Change a group of ours by hand, and it is repaired at the next poll, within 30 s:")
	fmt.Fprintf(s.out, `
  export AWS_ENDPOINT_URL=%[1]s AWS_REGION=%[4]s AWS_DEFAULT_REGION=%[4]s
  export AWS_ACCESS_KEY_ID=%[5]s
  export AWS_SECRET_ACCESS_KEY=%[6]s
  aws ec2 describe-security-groups --filters Name=tag-key,Values=%[7]scluster

  # May border_01 use ssh to core_01, and which rules decide?
  curl '%[1]s/_sim/allowed?src=%[2]s&dst=%[3]s&proto=tcp&port=22'

`, l.Endpoint, border01, core01, l.Region, l.AccessKeyID, shellWord(l.Secret), tagPrefix)
	s.say("Whatever changes who reaches whom is printed here. Ctrl-C stops.")
	fmt.Fprintln(s.out)
}

// watch prints what changes until ctx ends.
func (s *story) watch(ctx context.Context) error {
	changes := make(chan struct{}, 1)
	stop := s.account.server.World().OnMutation(func(aws.Mutation) {
		select {
		case changes <- struct{}{}:
		default:
		}
	})
	defer stop()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(s.out, "Stopping. Ctrl-C again ends at once.")
			return nil
		case <-s.account.server.Done():
			return errors.New("the simulator has ended by itself")
		case <-changes:
		}
		if !settle(ctx, changes) {
			continue
		}
		m, err := s.account.matrix()
		if err != nil {
			s.say("%s  %v", clock(), err) // a VM that was terminated, say: the user's own doing
			continue
		}
		for _, d := range m.differences(s.last.cells) {
			s.say("%s  %s -> %s: %s", clock(), d.from, d.to, news(d.other, d.is, m.services))
		}
		s.last = m
		data, err := s.account.dataMatrix()
		if err != nil {
			s.say("%s  %v", clock(), err)
			continue
		}
		for _, d := range data.differences(s.lastData.cells) {
			s.say("%s  %s -> %s: %s", clock(), d.from, d.to, news(d.other, d.is, data.services))
		}
		s.lastData = data
	}
}

func clock() string { return time.Now().Format(time.TimeOnly) }

// settle waits until it has been calm for a moment; false if ctx ended.
func settle(ctx context.Context, changes <-chan struct{}) bool {
	end := time.After(longest)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-end:
			return true
		case <-changes:
		case <-time.After(calm):
			return true
		}
	}
}

// news says what a cell allows now that it did not, and the reverse.
func news(before, after string, all []service) string {
	var more, less []string
	for i, s := range all {
		switch {
		case i >= len(before) || i >= len(after) || before[i] == after[i]:
		case after[i] == s.letter:
			more = append(more, s.name)
		case after[i] == partly:
			more = append(more, s.name+" between some interfaces")
		default:
			less = append(less, s.name)
		}
	}
	var parts []string
	if len(more) > 0 {
		parts = append(parts, "now "+strings.Join(more, ", "))
	}
	if len(less) > 0 {
		parts = append(parts, "no more "+strings.Join(less, ", "))
	}
	return strings.Join(parts, "; ")
}

// shellWord returns s as one word for a shell.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%=", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
