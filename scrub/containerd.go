package scrub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/containerd"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const (
	containerdUnit = "containerd.service"
	containerdMeta = containerd.MetadataPath
	// dockerNamespace is Docker's own; its containers are dockerd's to remove.
	dockerNamespace = "moby"
)

// containerRules holds the row of the old cluster's containers.
func containerRules() []Rule {
	return []Rule{
		{
			ID: "containers", Phase: Unmount, Groups: []string{"kubelet", "containerd"}, Verb: plan.Run,
			Owner:       "containerd",
			Why:         "the old cluster's containers and sandboxes start again or keep their names reserved; images and their snapshots stay, so that a first boot pulls nothing it need not",
			Regenerated: "the kubelet", Source: "containerd's ops.md, cri #1014, containerd #10842, amazon-eks-ami #2061",
			Find: containers,
		},
	}
}

// containerKind is something of a namespace that a scrub takes away through
// containerd, which ctr talks to: its store must not be edited by hand.
type containerKind struct {
	name   string // as plans print it
	bucket string // in containerd's metadata; empty where it is not kept there
	list   []string
	remove []string
	titled bool // the list begins with a line of titles
	runs   bool // it is processes, which end first
}

// containerKinds are in the order they go: a container cannot go before its
// task, nor a lease before what it holds.
var containerKinds = []containerKind{
	{"task", "", []string{"tasks", "ls", "-q"}, []string{"tasks", "rm", "--force"}, false, true},
	{"container", "containers", []string{"containers", "ls", "-q"}, []string{"containers", "rm"}, false, false},
	// This list alone has no -q.
	{"sandbox", "sandboxes", []string{"sandboxes", "ls"}, []string{"sandboxes", "rm", "--force"}, true, false},
	{"lease", "leases", []string{"leases", "ls", "-q"}, []string{"leases", "rm"}, false, false},
}

// containers plans what containerd still holds of the old cluster. Where it
// does not run, its metadata is read and what is in it reported: a person has
// to start it and scrub again.
func containers(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if h.HasSystemd() {
		active, err := h.IsActive(ctx, containerdUnit)
		if err != nil {
			return plan.Answer{}, err
		}
		if active {
			return liveContainers(ctx, h)
		}
	}
	return storedContainers(h)
}

func liveContainers(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if !h.HasCommand("ctr") {
		return plan.Answer{}, errors.New("containerd runs, but ctr, by which it is asked, is not installed: install it, or stop containerd to have its metadata read")
	}
	namespaces, err := ctr(ctx, h, "namespaces", "ls", "-q")
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, ns := range namespaces {
		found, err := namespaceActions(ctx, h, ns)
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Add(found)
	}
	return answer, nil
}

func namespaceActions(ctx context.Context, h *host.Host, ns string) (plan.Answer, error) {
	images, err := ctr(ctx, h, "-n", ns, "images", "ls", "-q")
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, kind := range containerKinds {
		ids, err := ctr(ctx, h, append([]string{"-n", ns}, kind.list...)...)
		if unknownToCtr(err) {
			continue // containerd 1.6 has no sandboxes of its own
		}
		if err != nil {
			return plan.Answer{}, err
		}
		if kind.titled && len(ids) > 0 {
			ids = ids[1:]
		}
		for _, id := range ids {
			target := fmt.Sprintf("%s %s/%s", kind.name, ns, id)
			if ns == dockerNamespace {
				answer.Find(target, "it is Docker's: remove it with docker rm")
				continue
			}
			answer.Act(plan.Action{Verb: plan.Run, Target: target, Reason: "it is of the old cluster's pods",
				Do: func(ctx context.Context, _ plan.Progress) error { return removeThrough(ctx, h, ns, kind, id, images) }})
		}
	}
	return answer, nil
}

// removeThrough removes one thing and makes sure that no image went with it.
func removeThrough(ctx context.Context, h *host.Host, ns string, kind containerKind, id string, images []string) error {
	if err := remove(ctx, h, ns, kind, id); err != nil {
		return err
	}
	left, err := ctr(ctx, h, "-n", ns, "images", "ls", "-q")
	if err != nil {
		return err
	}
	for _, image := range images {
		if !slices.Contains(left, image) {
			return fmt.Errorf("the image %s went away with it, and a first boot would have to pull it: import it again", image)
		}
	}
	return nil
}

func remove(ctx context.Context, h *host.Host, ns string, kind containerKind, id string) error {
	if kind.runs {
		if ended, err := endTask(ctx, h, ns, id); ended || err != nil {
			return err
		}
	}
	_, err := ctr(ctx, h, append(append([]string{"-n", ns}, kind.remove...), id)...)
	if err != nil && !strings.Contains(err.Error(), "not found") {
		return err
	}
	return nil
}

// endTask kills a task's first process, with which all others of its process
// namespace end, and removes the task when it has ended. It is what the kubelet
// does. Removed by force, a task has all processes of its control group killed
// one by one, which on version 1 of those can hang; that is left for tasks that
// do not end within ten seconds.
func endTask(ctx context.Context, h *host.Host, ns, id string) (bool, error) {
	// A task that has ended already cannot be killed; removing it says the rest.
	_, _ = ctr(ctx, h, "-n", ns, "tasks", "kill", "--signal", "SIGKILL", id)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		_, err := ctr(ctx, h, "-n", ns, "tasks", "rm", id)
		if err == nil || strings.Contains(err.Error(), "not found") {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false, nil
}

// ctr asks containerd and returns the words of each line's first column.
func ctr(ctx context.Context, h *host.Host, args ...string) ([]string, error) {
	out, err := h.Run(ctx, host.Command{Argv: append([]string{"ctr", "--timeout", "20s"}, args...)})
	if err != nil {
		return nil, fmt.Errorf("asking containerd: %w", err)
	}
	var words []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 0 {
			words = append(words, f[0])
		}
	}
	return words, nil
}

// unknownToCtr says whether ctr does not know a subcommand: it exits with 3.
func unknownToCtr(err error) bool {
	var failed *host.CommandError
	return errors.As(err, &failed) && failed.ExitCode() == 3 && strings.Contains(failed.Output, "No help topic")
}

// storedContainers reads containerd's metadata while it does not run.
func storedContainers(h *host.Host) (plan.Answer, error) {
	m, err := containerd.OpenMetadata(h, os.O_RDONLY)
	if m == nil || err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	all := m.Below("v1")
	for _, ns := range all.Buckets() {
		for _, kind := range containerKinds {
			for _, id := range all.Below(ns, kind.bucket).Buckets() {
				answer.Find(fmt.Sprintf("%s %s/%s", kind.name, containerd.Plain(ns), containerd.Plain(id)), "containerd does not run, and only it may remove this: start it on the machine and scrub again")
			}
		}
	}
	return answer, m.Close()
}
