package scrub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// changedFilesID is the rule for files of packages that are no longer as
// installed.
const changedFilesID = "changed-files"

func changedRules() []Rule {
	return []Rule{
		{
			ID: changedFilesID, Phase: Inspect, Groups: []string{"packages"}, Verb: Report,
			Paths: []string{"/**"}, Owner: "anybody",
			Why:         "an edit of a package's file reaches every node, and no list of the build names it; findings are notes unless this rule is selected by its name",
			Regenerated: "reinstalling the package", Source: "dpkg(1) --verify, rpm(8) --verify, pacman(8) -Qkk",
			search: changedFiles, notes: true,
		},
	}
}

// rewritten are files of packages that every machine has in its own form:
// accounts, disks, names, and what packages keep in /var.
var rewritten = []string{
	"/etc/passwd*", "/etc/shadow*", "/etc/group*", "/etc/gshadow*", "/etc/subuid*", "/etc/subgid*", "/etc/shells",
	"/etc/fstab", "/etc/crypttab", "/etc/mtab", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/machine-id", "/etc/adjtime",
	"/etc/localtime", "/etc/locale.conf", "/etc/locale.gen", "/etc/vconsole.conf", "/etc/ld.so.cache", "/etc/motd", "/etc/issue", "/etc/issue.net",
	"/etc/pki/ca-trust/extracted", "/etc/ca-certificates.conf", "/usr/lib/locale/locale-archive",
}

// editors are programs that edit configuration of packages on a usual machine.
var editors = []struct{ pattern, editor string }{
	{"/etc/ssh/sshd_config", "cloud-init"},
	{"/etc/cloud/cloud.cfg", "cloud-init"},
	{"/etc/sudoers", "cloud-init"},
	{"/etc/default/*", "a script of the distribution"},
	{"/etc/sysconfig/*", "a script of the distribution"},
	{"/etc/selinux/*", "a script of the distribution"},
	{"/etc/pam.d/*", "authselect or pam-auth-update"},
	{"/etc/nsswitch.conf", "authselect or a package's script"},
	{"/etc/chrony*", "cloud-init"},
	{"/etc/pacman.conf", "the maker of the image"},
}

// changedFiles reports the files of packages whose content differs from the
// installed one. It leaves out what a provision records in the manifest, which
// the rule can-join compares, and what other rules remove or write.
func changedFiles(ctx context.Context, h *host.Host, taken taken, known *originals) ([]plan.Finding, error) {
	if err := known.read(ctx, h); err != nil || !known.any() {
		return nil, err
	}
	m, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	var recorded []string
	if m != nil {
		recorded = recordedPaths(m)
	}
	var programs, settings []plan.Finding
	var errs []error
	_, err = h.Files.Walk(ctx, "/", "/", func(e host.Entry, err error) error {
		name := e.Path
		switch {
		case err != nil:
			errs = append(errs, err)
			return nil
		case e.IsDir() && (slices.Contains([]string{"/proc", "/sys", "/dev", "/run", "/var"}, name) || taken.inWalk("/", name)):
			return fs.SkipDir
		case len(known.have[name]) == 0 || e.IsDir() || kept(rewritten, name) || slices.Contains(recorded, name) || taken.inWalk("/", name) || taken.by(name, plan.Restore, plan.Write):
			return nil
		}
		f, err := changed(ctx, e, known)
		if err != nil {
			errs = append(errs, fmt.Errorf("comparing %s with its package: %w", name, err))
		}
		if f != nil && known.have[name][0].Config {
			settings = append(settings, *f)
		} else if f != nil {
			programs = append(programs, *f)
		}
		return nil
	})
	return append(programs, settings...), errors.Join(append(errs, err)...)
}

// changed compares a file with its originals.
func changed(ctx context.Context, e host.Entry, known *originals) (*plan.Finding, error) {
	original := known.have[e.Path][0]
	what := fmt.Sprintf("differs from the file that the package %.80q installed", original.Package)
	if original.Config {
		what = fmt.Sprintf("configuration of the package %.80q, changed since installation", original.Package)
	}
	for _, other := range editors {
		if kept([]string{other.pattern}, e.Path) {
			what += "; " + other.editor + " edits this file too"
		}
	}
	if !e.Mode().IsRegular() {
		return &plan.Finding{Target: e.Path, Reason: what + "; now a link or a special file"}, nil
	}
	same, compared := known.compared(e.Path)
	if !compared {
		in, err := e.Open()
		if err != nil {
			return nil, ignoreMissing(err)
		}
		defer in.Close()
		if same, err = known.unchanged(ctx, e.Path, in); err != nil {
			return nil, err
		}
	}
	if same {
		return nil, nil
	}
	return &plan.Finding{Target: e.Path, Reason: what}, nil
}
