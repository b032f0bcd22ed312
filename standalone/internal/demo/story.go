package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nephele-io/nephele/internal/platform/progress"
	"github.com/nephele-io/nephele/standalone/internal/up"
)

const (
	// defaultLimit bounds every wait of the story; on a slow machine each takes seconds.
	defaultLimit = 2 * time.Minute
	// poll is the time between two looks while waiting, and so the precision of the times that the
	// story prints.
	poll = 50 * time.Millisecond
	// commandPause is the same where a command looks: a process that starts takes a quarter of a
	// second of a processor, which what is waited for could use.
	commandPause = time.Second
	// grace is how long the cloud may be behind what the status says before the story goes on with
	// what is there.
	grace = 5 * time.Second
)

// story is one telling.
type story struct {
	*teller
	// limit bounds every wait.
	limit   time.Duration
	steps   *progress.Reporter
	session up.Session
	cluster cluster
	account account
	preview Preview
	// dir holds the manifests.
	dir string
	// pristine is the account before anything happened, untouched what no policy of the story may
	// change in it.
	pristine, untouched map[string]string

	// pristineAzure is the subscription before anything happened.
	pristineAzure map[string]string

	machines []vm
	last     matrix
	// lastData is the last look at the databases.
	lastData matrix
	checks   int
	failed   []string
	// planned is the number of changing calls that the plan needs.
	planned int
}

// timeout is the error of a wait that was in vain.
type timeout struct {
	what, last string
	after      time.Duration
}

func (e *timeout) Error() string {
	return fmt.Sprintf("gave up after %s of waiting until %s; last seen: %s", e.after, e.what, e.last)
}

// await waits until missing says nothing.
func (s *story) await(ctx context.Context, what string, missing func(context.Context) (string, error)) error {
	return s.awaitEvery(ctx, poll, what, missing)
}

// awaitEvery is await with another time between two looks.
func (s *story) awaitEvery(ctx context.Context, pause time.Duration, what string, missing func(context.Context) (string, error)) error {
	s.steps.Step("waiting until " + what)
	defer s.steps.Step("")
	bounded, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	last := "nothing"
	for {
		text, err := missing(bounded)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !transient(err):
			return err
		case err != nil:
			if bounded.Err() == nil {
				last = err.Error()
			}
		case text == "":
			return nil
		default:
			last = text
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &timeout{what, last, s.limit}
		case <-time.After(pause):
		}
	}
}

// check records and prints whether something held.
func (s *story) check(wrong []string, format string, args ...any) {
	s.checks++
	what := fmt.Sprintf(format, args...)
	if len(wrong) == 0 {
		s.result("ok", "%s", what)
		return
	}
	s.failed = append(s.failed, what)
	s.result("FAILED", "%s:", what)
	for _, w := range wrong {
		s.result("", "%s", w)
	}
}

// look prints which endpoint reaches which now, marks what differs from the last look, and checks
// it against a table.
func (s *story) look(want string, marks bool) error {
	m, err := s.account.matrix()
	if err != nil {
		return err
	}
	var former [][]string
	if marks {
		former = s.last.cells
	}
	s.compare(m, former, table(want).cells, "the simulator")
	s.check(changed(s.untouched, bystanders(s.account.regionState())),
		"the other security groups, interfaces and VPCs of the account are untouched (%d compared)", len(s.untouched))
	s.last = m
	return nil
}

// compare prints a matrix, and checks it against what the story expects.
func (s *story) compare(m matrix, former, want [][]string, judge string) {
	s.print(m.Text(former, s.screen.columns()))
	var wrong []string
	for _, d := range m.differences(want) {
		wrong = append(wrong, d.in(m.services))
	}
	s.check(wrong, "all %d cells are as the story expects (%d verdicts of %s)", len(m.from)*len(m.to), m.flows, judge)
}

// measured is how long it took until policies were in force.
type measured struct {
	// inForce is when the simulator's verdicts first were all as expected, reported when all
	// statuses said so.
	inForce, reported time.Duration
	calls             calls
}

// enforce waits until the status of all VMs and policies says that they are realized, and the
// verdicts are as expected. It stops waiting for the latter soon after the status: the checks that
// follow then say what is wrong.
func (s *story) enforce(ctx context.Context, begin time.Time, after int, policies map[string][]string, want string) (measured, error) {
	var out measured
	cells := table(want).cells
	err := s.await(ctx, "the policies are realized", func(ctx context.Context) (string, error) {
		missing, err := s.cluster.realized(ctx, s.machines, policies)
		if err != nil {
			return "", err
		}
		m, err := s.account.matrix()
		if err != nil {
			return "", err
		}
		now := time.Since(begin)
		asExpected := len(m.differences(cells)) == 0
		if asExpected && out.inForce == 0 {
			out.inForce = now
		}
		if missing == "" && out.reported == 0 {
			out.reported = now
			out.calls = count(s.account.server.Journal().Calls(after))
		}
		if missing == "" && !asExpected && now < out.reported+grace {
			return "the status says so, but the security groups do not allow what they should", nil
		}
		return missing, nil
	})
	return out, err
}

// seconds prints a short time.
func seconds(d time.Duration) string {
	if d == 0 {
		return "(never)"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func (s *story) file(name string) string { return filepath.Join(s.dir, name) }

// apply shows and does a kubectl apply.
func (s *story) apply(ctx context.Context, name string) error {
	s.command("kubectl apply -f %s", shellWord(s.file(name)))
	return s.cluster.apply(ctx, s.file(name))
}

// tell tells the story up to the point where the policies are in force and one change was made.
func (s *story) tell(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.before, s.importVMs, s.showPlan, s.guard, s.after, s.change, s.secondCloud, s.onePolicy} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) before(context.Context) error {
	s.heading("The account before")
	r := s.account.regionState()
	machines, err := vms(r)
	if err != nil {
		return err
	}
	s.machines = machines
	s.say("The VPC \"Arista Demo\" (%s, 192.168.0.0/16) holds %s:", vpcID, numbered(len(machines), "VM"))
	s.print(vmTable(machines))
	s.say("Who may open a connection to whom, by the security groups of both ends. 38.140.26.4 lies in a range from which the " +
		"account allows ping; 203.0.113.7 stands for the rest of the Internet. A VM with two interfaces stands for both: a letter " +
		"means that every pair of interfaces may talk.")
	if err := s.look(expectBefore, false); err != nil {
		return err
	}
	s.say("Only security groups are asked. Whether a VM runs (these were stopped when the account was published) or has a public " +
		"address plays no part.")
	return nil
}

func (s *story) importVMs(ctx context.Context) error {
	s.heading("Import the VMs")
	s.say("Two objects suffice: an account (with a Secret that holds its keys) and a selector that says which of its VMs to guard.")
	begin, after := time.Now(), s.account.server.Journal().Total()
	for _, name := range []string{fileAccount, fileSelector} {
		if err := s.apply(ctx, name); err != nil {
			return err
		}
	}
	err := s.await(ctx, "the VMs are imported", func(ctx context.Context) (string, error) {
		return s.cluster.imported(ctx, s.machines, false)
	})
	if err != nil {
		return err
	}
	s.say("After %s there are a VirtualMachine and an ExternalEntity object for each VM (%s).",
		seconds(time.Since(begin)), count(s.account.server.Journal().Calls(after)))
	if err := s.showImported(ctx); err != nil {
		return err
	}
	if err := s.apply(ctx, fileRoles); err != nil {
		return err
	}
	return s.await(ctx, "the ExternalEntity objects carry the roles", func(ctx context.Context) (string, error) {
		return s.cluster.imported(ctx, s.machines, true)
	})
}

func (s *story) guard(ctx context.Context) error {
	s.heading("Enforce")
	begin, after := time.Now(), s.account.server.Journal().Total()
	for _, name := range []string{fileNoSSH, fileSwitches} {
		if err := s.apply(ctx, name); err != nil {
			return err
		}
	}
	m, err := s.enforce(ctx, begin, after, policiesOn(false), expectGuarded)
	if err != nil {
		return err
	}
	s.say("In force after %s, status Realized after %s. Calls to the cloud: %s, the controller's polls included.",
		seconds(m.inForce), seconds(m.reported), m.calls)
	if n := total(m.calls.writes); n != s.planned {
		s.say("That is not the %s of the plan: the controller saw the policies one after the other and planned for each.",
			numbered(s.planned, "changing call"))
	}
	var wrong []string
	if m.inForce == 0 || m.inForce > m.reported {
		wrong = []string{fmt.Sprintf("reported after %s, in force after %s", seconds(m.reported), seconds(m.inForce))}
	}
	s.check(wrong, "the status said Realized only when it was true")
	return nil
}

func (s *story) after(context.Context) error {
	s.heading("The account after")
	if err := s.look(expectGuarded, true); err != nil {
		return err
	}
	s.say("The Drop holds everywhere, also where the account's own group allows ssh. The switches accept what the second policy " +
		"allows and nothing else. CVP is not isolated: what the Drop does not take away is left as it was (ping from 38.140.26.4). " +
		"No policy speaks of egress, so egress is as before.")
	s.say("The security groups that do this:")
	s.print(s.groups())
	return nil
}

func (s *story) change(ctx context.Context) error {
	s.heading("A change")
	s.say("core_01 changes its role from switch to cvp. No policy is touched; what they say of core_01 changes.")
	begin, after := time.Now(), s.account.server.Journal().Total()
	if err := s.apply(ctx, fileMoved); err != nil {
		return err
	}
	m, err := s.enforce(ctx, begin, after, policiesOn(true), expectMoved)
	if err != nil {
		return err
	}
	s.say("In force after %s, reported after %s. Calls to the cloud: %s, the controller's polls included.",
		seconds(m.inForce), seconds(m.reported), m.calls)
	return s.look(expectMoved, true)
}

// restore takes everything back: the policies, then the account.
func (s *story) restore(ctx context.Context) error {
	s.heading("Back to the beginning")
	s.say("When the last policy goes, every interface gets its former security groups back, on both clouds.")
	begin, after := time.Now(), s.account.server.Journal().Total()
	for _, name := range []string{fileDatabases, fileSwitches, fileNoSSH} {
		s.command("kubectl delete -f %s", shellWord(s.file(name)))
		if err := s.cluster.remove(ctx, s.file(name)); err != nil {
			return err
		}
	}
	if err := s.await(ctx, "the VMs are released", s.released); err != nil {
		return err
	}
	s.say("Restored after %s. Calls to the cloud: %s.", seconds(time.Since(begin)), count(s.account.server.Journal().Calls(after)))
	if err := s.look(expectBefore, true); err != nil {
		return err
	}
	if err := s.lookAtData(expectDataBefore, true); err != nil {
		return err
	}
	s.command("kubectl delete cloudprovideraccount --namespace %s %s %s", namespace, accountName, azureAccountName)
	if err := s.leave(ctx); err != nil {
		return err
	}
	s.check(changed(s.pristine, objects(s.account.regionState())),
		"the account is exactly as it was found: groups, rules, interfaces and tags (%d objects compared)", len(s.pristine))
	s.check(changed(s.pristineAzure, azureObjects(s.account.azureState())), "so is the subscription (%d resources compared)", len(s.pristineAzure))
	return nil
}

// released says whether no policy applies to a VM any more and no interface of a VM holds anything
// of ours.
func (s *story) released(ctx context.Context) (string, error) {
	missing, err := s.cluster.realized(ctx, s.machines, nil)
	if err != nil || missing != "" {
		return missing, err
	}
	r := s.account.regionState()
	for _, n := range r.NetworkInterfaces {
		if hasOurTag(n.Tags) {
			return "interface " + n.ID + " carries a tag of ours", nil
		}
	}
	for _, g := range r.SecurityGroups {
		if ours(g) {
			return "there is a security group of ours, " + g.Name, nil
		}
	}
	return s.dataReleased(ctx)
}

// leave deletes the account and waits until it is gone.
func (s *story) leave(ctx context.Context) error {
	if err := s.cluster.deleteAccount(ctx); err != nil {
		return err
	}
	return s.await(ctx, "the account is gone", s.cluster.accountGone)
}

// sum says whether the story held. It returns false if not.
func (s *story) sum(err error) bool {
	var late *timeout
	if errors.As(err, &late) {
		s.check([]string{"last seen: " + late.last}, "within %s, %s", late.after, late.what)
	}
	fmt.Fprintln(s.out)
	if len(s.failed) == 0 && err == nil {
		s.say("All %d checks held.", s.checks)
		return true
	}
	s.say("%d of %d checks did NOT hold:", len(s.failed), s.checks)
	for _, f := range s.failed {
		s.item("%s", f)
	}
	return false
}
