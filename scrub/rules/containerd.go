package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

const (
	containerdUnit = "containerd.service"
	containerdMeta = containerd.MetadataPath
	// dockerNamespace belongs to Docker; dockerd removes its containers.
	dockerNamespace = "moby"
)

// containerKind is a kind of object in a containerd namespace. The scrub
// removes such objects with ctr, because containerd's database must not be
// edited by hand.
type containerKind struct {
	name   string // in plans
	bucket string // in containerd's metadata; empty if the metadata has none
	list   []string
	remove []string
	titled bool // the list starts with a line of titles
	runs   bool // has processes, which must end first
}

// containerKinds lists the kinds in the order of removal: a task before its
// container, and contents before their lease.
var containerKinds = []containerKind{
	{"task", "", []string{"tasks", "ls", "-q"}, []string{"tasks", "rm", "--force"}, false, true},
	{"container", "containers", []string{"containers", "ls", "-q"}, []string{"containers", "rm"}, false, false},
	// Only this list has no option -q.
	{"sandbox", "sandboxes", []string{"sandboxes", "ls"}, []string{"sandboxes", "rm", "--force"}, true, false},
	{"lease", "leases", []string{"leases", "ls", "-q"}, []string{"leases", "rm"}, false, false},
}

// containers plans the removal of the old cluster's containers. If containerd
// does not run, containers reads its metadata and reports what it finds: a
// person has to start containerd and scrub again.
func containers(d *rule.Draft) {
	if d.Host.HasSystemd() {
		active, err := d.Host.IsActive(d.Ctx, containerdUnit)
		if d.Failed(err) || active {
			liveContainers(d)
			return
		}
	}
	storedContainers(d)
}

func liveContainers(d *rule.Draft) {
	if d.Err == nil && !d.Host.HasCommand("ctr") {
		d.Failed(errors.New("containerd runs, but ctr is not installed: install ctr, or stop containerd so that " +
			"eksnode can read its metadata"))
	}
	for _, ns := range readCtr(d, "namespaces", "ls", "-q") {
		namespaceActions(d, ns)
	}
}

func namespaceActions(d *rule.Draft, ns string) {
	images := readCtr(d, "-n", ns, "images", "ls", "-q")
	for _, kind := range containerKinds {
		ids, err := ctr(d.Ctx, d.Host, append([]string{"-n", ns}, kind.list...)...)
		if unknownToCtr(err) {
			continue // containerd 1.6 does not store sandboxes
		}
		if d.Failed(err) {
			return
		}
		if kind.titled && len(ids) > 0 {
			ids = ids[1:]
		}
		for _, id := range ids {
			target := fmt.Sprintf("%s %s/%s", kind.name, ns, id)
			if ns == dockerNamespace {
				d.Find(target, "belongs to Docker: remove it with docker rm")
				continue
			}
			d.Act(plan.Action{Verb: plan.Run, Target: target, Reason: "belongs to the old cluster's pods",
				Do: func(ctx context.Context, _ plan.Progress) error {
					return removeThrough(ctx, d.Host, ns, kind, id, images)
				}})
		}
	}
}

// removeThrough removes one object, and verifies that no image disappears with
// it.
func removeThrough(ctx context.Context, h *host.Host, ns string, kind containerKind, id string, images []string) error {
	ended := false
	var err error
	if kind.runs {
		ended, err = endTask(ctx, h, ns, id)
	}
	if err == nil && !ended {
		_, err = ctr(ctx, h, append(append([]string{"-n", ns}, kind.remove...), id)...)
	}
	if err != nil && !strings.Contains(err.Error(), "not found") {
		return err
	}
	left, err := ctr(ctx, h, "-n", ns, "images", "ls", "-q")
	if err != nil {
		return err
	}
	for _, image := range images {
		if !slices.Contains(left, image) {
			return fmt.Errorf("the removal also removed the image %s: import the image again, or first boot has to "+
				"pull it", image)
		}
	}
	return nil
}

// endTask kills the first process of a task, which ends all processes of its
// PID namespace, and then removes the task, as the kubelet does. Forced removal
// kills the processes of the control group one by one, which can hang with
// cgroup v1. So it is used only for tasks that do not end within ten seconds.
func endTask(ctx context.Context, h *host.Host, ns, id string) (bool, error) {
	// Killing a task fails if it has ended already; the removal reports other
	// problems.
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

// ctr runs ctr and returns the words in the first column of its output.
func ctr(ctx context.Context, h *host.Host, args ...string) ([]string, error) {
	out, err := h.Run(ctx, host.Command{Argv: append([]string{"ctr", "--timeout", "20s"}, args...)})
	if err != nil {
		return nil, err
	}
	var words []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 0 {
			words = append(words, f[0])
		}
	}
	return words, nil
}

// unknownToCtr reports whether ctr lacks a subcommand: it exits with 3.
func unknownToCtr(err error) bool {
	var failed *host.CommandError
	return errors.As(err, &failed) && failed.ExitCode() == 3 && strings.Contains(failed.Output, "No help topic")
}

// storedContainers reads the metadata of a containerd that does not run.
func storedContainers(d *rule.Draft) {
	m, err := containerd.OpenMetadata(d.Host, os.O_RDONLY)
	if d.Failed(err) {
		return
	}
	if m == nil {
		namelessStore(d)
		return
	}
	all := m.Below("v1")
	for _, ns := range all.Buckets() {
		for _, kind := range containerKinds {
			for _, id := range all.Below(ns, kind.bucket).Buckets() {
				d.Find(fmt.Sprintf("%s %s/%s", kind.name, containerd.Plain(ns), containerd.Plain(id)),
					"containerd does not run, and only containerd can remove this: start containerd on the machine "+
						"and scrub again")
			}
		}
	}
	d.Failed(m.Close())
}

// namelessStore plans the removal of a store without metadata: no program can name
// an image in it. An image that the manifest lists is lost, which is a finding.
func namelessStore(d *rule.Draft) {
	names := d.Matching(d.Paths...)
	if len(names) == 0 {
		return
	}
	if lists := loaded(d); lists != nil && len(lists.Images) > 0 {
		d.Find("/var/lib/containerd", containerdMeta+" is missing, and the manifest lists images: provision again, or "+
			"remove the folder")
		return
	}
	for _, name := range names {
		d.Remove(name, containerdMeta+" is missing, so no program can name what is in here")
	}
}

// containerMark is part of every container in containerd's metadata, next to
// its whole specification: environment, arguments, annotations.
const containerMark = "types.containerd.io/opencontainers/runtime-spec"

// freedContainers plans the wiping of containerd's metadata. Its database,
// bbolt, keeps removed data in free pages until new data overwrites them.
func freedContainers(d *rule.Draft) {
	m, err := containerd.ReadMetadata(d.Host)
	if d.Failed(err) || m == nil {
		return
	}
	found, err := m.FreeContains([]byte(containerMark))
	if d.Failed(errors.Join(err, m.Close())) || !found {
		return
	}
	d.Act(plan.Action{Verb: plan.Wipe, Target: containerdMeta,
		Reason: "removed containers and their environment stay readable in its free pages",
		Do: func(ctx context.Context, _ plan.Progress) error {
			if !d.Host.HasSystemd() {
				return fillFreePages(d.Host)
			}
			return withoutContainerd(ctx, d.Host, func() error { return fillFreePages(d.Host) })
		}})
}

// withoutContainerd calls a function while containerd is stopped, and then
// starts it again if it was running.
func withoutContainerd(ctx context.Context, h *host.Host, do func() error) (err error) {
	active, err := h.IsActive(ctx, containerdUnit)
	if err != nil {
		return err
	}
	if active {
		defer func() {
			err = errors.Join(err, h.PutBack(ctx, host.Command{Argv: []string{"systemctl", "start", containerdUnit}}))
		}()
		if _, err := h.Run(ctx, host.Command{Argv: []string{"systemctl", "stop", containerdUnit}}); err != nil {
			return err
		}
	}
	return do()
}

func fillFreePages(h *host.Host) error {
	if err := h.Files.Unshare(containerdMeta); err != nil {
		return err
	}
	m, err := containerd.OpenMetadata(h, os.O_RDWR)
	if m == nil || err != nil {
		return err
	}
	return errors.Join(m.WipeFree(), m.Close()) // no other program opens the copy before
}

// imagesLost reports container images that the manifest records but that
// containerd no longer has, or has changed. If containerd does not run,
// imagesLost reads its metadata.
func imagesLost(d *rule.Draft) {
	m := loaded(d)
	if m == nil || len(m.Images) == 0 {
		return
	}
	have, err := containerd.Images(d.Ctx, d.Host)
	d.Failed(err)
	for _, i := range m.Images {
		if lack := containerd.Lacks(have, i.Name, i.Digest); lack != "" {
			d.Find("image "+i.Name, lack+": provision again")
		}
	}
}

// readCtr is ctr for a draft.
func readCtr(d *rule.Draft, args ...string) []string {
	if d.Err != nil {
		return nil
	}
	words, err := ctr(d.Ctx, d.Host, args...)
	d.Failed(err)
	return words
}
