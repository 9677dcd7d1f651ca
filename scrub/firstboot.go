package scrub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// isInits says whether `eksnode init` wrote a file: it says so in the first
// line of those whose form has comments.
func isInits(text []byte) bool { return bytes.HasPrefix(text, []byte(templates.InitMark+"\n")) }

// removeMarked plans the removal of those files that `eksnode init` wrote; a
// package's or a person's file of the same name stays.
func removeMarked(names ...string) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(_ context.Context, h *host.Host) (plan.Answer, error) {
		return removeWhere(h, "first boot wrote it", isInits, names...)
	}
}

const sociConfig = "/etc/soci-snapshotter-grpc/config.toml"

const credentialProviderConfig = "/etc/eks/image-credential-provider/config.json"

// credentialProvider puts the image's own list of registries back where a first
// boot has written another; on an image that records none it goes, unless it
// came with Amazon Linux 2's bootstrap.sh. One that somebody wrote stays.
func credentialProvider(_ context.Context, h *host.Host) (plan.Answer, error) {
	current, err := h.Content(credentialProviderConfig)
	if err != nil {
		return plan.Answer{}, err
	}
	tmpl, err := templateOf(h, credentialProviderConfig)
	if err != nil {
		return plan.Answer{}, err
	}
	switch {
	case tmpl != nil && current == nil:
		return plan.Acts(restoreAction(h, credentialProviderConfig, tmpl.Content, tmpl.Attributes, "the template is missing")), nil
	case current == nil || !namesOnlyECR(current):
		return plan.Answer{}, nil
	case tmpl == nil:
		script, err := h.Exists("/etc/eks/bootstrap.sh")
		if err != nil || script {
			return plan.Answer{}, err
		}
		return planPath(h, plan.Remove, credentialProviderConfig, "first boot wrote it")
	case bytes.Equal(current, tmpl.Content):
		return plan.Answer{}, nil
	}
	attr, err := h.Files.Attributes(credentialProviderConfig)
	if err != nil {
		return plan.Answer{}, err
	}
	return plan.Acts(restoreAction(h, credentialProviderConfig, tmpl.Content, attr, "first boot wrote it")), nil
}

// namesOnlyECR says whether a CredentialProviderConfig is one that a first boot
// writes: one provider, for registries of ECR and no others, without arguments
// or environment.
func namesOnlyECR(text []byte) bool {
	var config struct {
		Providers []struct {
			Name        string   `json:"name"`
			MatchImages []string `json:"matchImages"`
			Args        []string `json:"args"`
			Env         []any    `json:"env"`
		} `json:"providers"`
	}
	if json.Unmarshal(text, &config) != nil || len(config.Providers) != 1 {
		return false
	}
	p := config.Providers[0]
	return p.Name == "ecr-credential-provider" && len(p.Args)+len(p.Env) == 0 && !slices.ContainsFunc(p.MatchImages, func(image string) bool {
		return !strings.HasPrefix(image, "*.dkr.ecr") && !strings.HasPrefix(image, "*.dkr-ecr") && !strings.HasPrefix(image, "public.ecr.") && !strings.HasPrefix(image, "ecr-public.")
	})
}

// mountUnit is a unit of /etc/systemd/system that mounts an instance store's
// disks, or a folder that lies on them.
type mountUnit struct {
	path        string // of the unit's file
	what, where string
	bind        bool
}

func (u mountUnit) name() string { return path.Base(u.path) }

// instanceStoreUnits are those that a first boot made: `eksnode init` marks
// them, Amazon's setup-local-disks describes them, and what is bound to a
// folder on their disks is theirs too. Folders come before the disks they lie
// on, so that they can be unmounted in this order.
func instanceStoreUnits(h *host.Host) ([]mountUnit, error) {
	names, err := glob(h, "/etc/systemd/system/*.mount")
	if err != nil {
		return nil, err
	}
	var all, own []mountUnit
	for _, name := range names {
		st, err := h.Files.Lstat(name)
		if isMissing(err) || err == nil && !st.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return nil, err
		}
		text, err := h.Content(name)
		if err != nil {
			return nil, err
		}
		u := parseMountUnit(name, text)
		if isInits(text) || bytes.Contains(text, []byte("\nDescription=Mount EC2 Instance Store NVMe disk")) || strings.HasPrefix(u.where, "/mnt/k8s-disks/") {
			own = append(own, u)
		} else {
			all = append(all, u)
		}
	}
	for _, u := range all {
		if u.bind && slices.ContainsFunc(own, func(o mountUnit) bool { return !o.bind && strings.HasPrefix(u.what, o.where+"/") }) {
			own = append(own, u)
		}
	}
	slices.SortStableFunc(own, func(a, b mountUnit) int {
		switch {
		case a.bind == b.bind:
			return 0
		case a.bind:
			return -1
		}
		return 1
	})
	return own, nil
}

func parseMountUnit(name string, text []byte) mountUnit {
	u := mountUnit{path: name}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "What":
			u.what = value
		case "Where":
			u.where = path.Clean(value)
		case "Options":
			u.bind = slices.Contains(strings.Split(value, ","), "bind")
		}
	}
	return u
}

// instanceStore unmounts the instance store, so that the image's own folders
// below come to light: what first boot left in them would be in the image, and
// nobody would have seen it.
func instanceStore(_ context.Context, h *host.Host) (plan.Answer, error) {
	if !h.IsLive() {
		return plan.Answer{}, nil // nothing of the image is mounted there
	}
	units, err := instanceStoreUnits(h)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, u := range units {
		mounted, err := h.Files.IsMountPoint(u.where)
		if err != nil {
			return plan.Answer{}, err
		}
		if mounted {
			answer.Act(plan.Action{Verb: plan.Unmount, Target: u.where, Reason: "the instance store hides what the image itself has there",
				Do: func(ctx context.Context, _ plan.Progress) error { return u.unmount(ctx, h) }})
		}
	}
	return answer, nil
}

// unmount ends the mount, with containerd stopped while it is containerd's.
func (u mountUnit) unmount(ctx context.Context, h *host.Host) error {
	if !h.HasSystemd() {
		return h.Unmount(u.where)
	}
	stop := func() error {
		_, err := h.Run(ctx, host.Command{Argv: []string{"systemctl", "stop", u.name()}})
		if err != nil {
			return fmt.Errorf("%w; stop what uses %s", err, u.where)
		}
		return nil
	}
	if u.where != "/var/lib/containerd" {
		return stop()
	}
	return withoutContainerd(ctx, h, stop)
}

// localDisks plans the removal of the units, of the links that start them, and
// of the array's configuration.
func localDisks(_ context.Context, h *host.Host) (plan.Answer, error) {
	units, err := instanceStoreUnits(h)
	if err != nil {
		return plan.Answer{}, err
	}
	const why = "it mounts the disks of another machine"
	var answer plan.Answer
	for _, u := range units {
		links, err := h.Enablements(u.name())
		if err != nil {
			return plan.Answer{}, err
		}
		for _, name := range append(links, u.path) {
			answer.Act(removeAction(h, name, why))
		}
	}
	// Links that a unit has left are dead.
	dead, err := glob(h, "/etc/systemd/system/*.wants/mnt-k8s*disks-*.mount")
	if err != nil {
		return plan.Answer{}, err
	}
	for _, name := range append(dead, "/.aws/mdadm.conf") {
		if slices.ContainsFunc(answer.Actions, func(a plan.Action) bool { return a.Target == name }) {
			continue
		}
		a, err := planPath(h, plan.Remove, name, why)
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Add(a)
	}
	return answer, nil
}
