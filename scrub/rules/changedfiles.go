package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// rewritten are files of packages that every machine has in its own form:
// accounts, disks, names, and what packages keep in /var.
var rewritten = []string{
	"/etc/passwd*", "/etc/shadow*", "/etc/group*", "/etc/gshadow*", "/etc/subuid*", "/etc/subgid*", "/etc/shells",
	"/etc/fstab", "/etc/crypttab", "/etc/mtab", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/machine-id",
	"/etc/adjtime", "/etc/localtime", "/etc/locale.conf", "/etc/locale.gen", "/etc/vconsole.conf", "/etc/ld.so.cache",
	"/etc/motd", "/etc/issue", "/etc/issue.net", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates.conf",
	"/usr/lib/locale/locale-archive",
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
func changedFiles(d *rule.Draft) {
	known := d.Originals
	if d.Failed(known.Read(d.Ctx, d.Host)) || !known.Any() {
		return
	}
	var recorded []string
	if m := loaded(d); m != nil {
		recorded = m.Paths()
	}
	var programs, settings []plan.Finding
	var errs []error
	d.Walk(func(e host.Entry) error {
		name := e.Path
		switch {
		case e.IsDir() && (slices.Contains([]string{"/proc", "/sys", "/dev", "/run", "/var"}, name) ||
			d.Taken.InWalk("/", name)):
			return fs.SkipDir
		case len(known.Have[name]) == 0 || e.IsDir() || rule.Kept(rewritten, name) || slices.Contains(recorded, name) ||
			d.Taken.InWalk("/", name) || d.Taken.By(name, plan.Restore, plan.Write):
			return nil
		}
		f, err := changed(d.Ctx, e, known)
		if err != nil {
			errs = append(errs, fmt.Errorf("comparing %s with its package: %w", name, err))
		}
		if f != nil && known.Have[name][0].Config {
			settings = append(settings, *f)
		} else if f != nil {
			programs = append(programs, *f)
		}
		return nil
	})
	d.Answer.Findings = append(programs, settings...)
	d.Failed(errors.Join(errs...))
}

func changed(ctx context.Context, e host.Entry, known *rule.Originals) (*plan.Finding, error) {
	original := known.Have[e.Path][0]
	what := fmt.Sprintf("differs from the file that the package %.80q installed", original.Package)
	if original.Config {
		what = fmt.Sprintf("configuration of the package %.80q, changed since installation", original.Package)
	}
	for _, other := range editors {
		if rule.Kept([]string{other.pattern}, e.Path) {
			what += "; " + other.editor + " edits this file too"
		}
	}
	if !e.Mode().IsRegular() {
		return &plan.Finding{Target: e.Path, Reason: what + "; now a link or a special file"}, nil
	}
	same, compared := known.Compared(e.Path)
	if !compared {
		in, err := e.Open()
		if err != nil {
			return nil, rule.IgnoreMissing(err)
		}
		defer in.Close()
		if same, err = known.Unchanged(ctx, e.Path, in); err != nil {
			return nil, err
		}
	}
	if same {
		return nil, nil
	}
	return &plan.Finding{Target: e.Path, Reason: what}, nil
}

// recordPath is the record of a scrub. It has no time and no name: its own times
// are when the scrub ended.
var recordPath = path.Join(path.Dir(manifest.Path), "scrubbed.json")

const recordSchema = "eksnode.scrubbed/v1"

type record struct {
	Schema string `json:"schema"`
	// Tool is the version of the eksnode that scrubbed.
	Tool string `json:"tool"`
	// Provisioned says that a provision followed.
	Provisioned bool `json:"provisioned,omitempty"`
}

// writtenLater are files that a running machine writes by itself where provisioners put
// theirs, and the folder of the record.
var writtenLater = []string{
	"/etc", "/etc/.pwd.lock", "/etc/.updated", "/etc/adjtime", "/etc/fake-hwclock.data", "/etc/hostname", "/etc/hosts",
	"/etc/lvm", "/etc/machine-id", "/etc/mtab", "/etc/resolv.conf*", path.Dir(recordPath),
	path.Dir(path.Dir(recordPath)),
}

// copiedAfter is how far the two times of a record are apart in a copy of the
// machine's files.
const copiedAfter = 2 * time.Second

// changedMost is how many changed files are findings of their own.
const changedMost = 20

// Ended records that a scrub with these outcomes has ended. tool is the version of
// eksnode. The record of an earlier scrub stays if nothing has changed since.
func Ended(ctx context.Context, h *host.Host, tool string, outcomes []plan.Outcome) error {
	if !slices.ContainsFunc(outcomes, func(o plan.Outcome) bool { return len(o.Actions) > 0 }) {
		d := &rule.Draft{Ctx: ctx, Host: h, Paths: rowOf("after-scrub").Paths}
		afterScrub(d)
		if d.Err == nil && d.Answer.NotApplicable == "" && len(d.Answer.Findings) == 0 {
			return nil
		}
	}
	return errors.Join(h.Files.MkdirAll(path.Dir(recordPath), 0o755),
		writeRecord(h, record{Schema: recordSchema, Tool: tool}))
}

// Provisioned notes in the record that a provision follows a scrub, and reports
// whether one does. A machine that has started since counts as not scrubbed.
func Provisioned(h *host.Host, dry bool) (bool, error) {
	r, err := readRecord(h)
	if r == nil || err != nil || dry || r.Provisioned {
		return r != nil, err
	}
	r.Provisioned = true
	return true, writeRecord(h, *r)
}

func writeRecord(h *host.Host, r record) error {
	text, err := json.Marshal(r)
	if err == nil {
		var attr host.Attributes // an image root may be a user's own
		attr, err = h.Files.Attributes(path.Dir(recordPath))
		if err == nil {
			err = h.Files.WriteFile(recordPath, append(text, '\n'),
				host.Attributes{Mode: 0o644, UID: attr.UID, GID: attr.GID})
		}
	}
	if err != nil {
		return fmt.Errorf("recording the scrub: %w", err)
	}
	return nil
}

// readRecord returns nil without a record, and when the machine has started since
// the scrub: the scrub empties the machine ID, and a boot fills it.
func readRecord(h *host.Host) (*record, error) {
	d := &rule.Draft{Host: h}
	content := d.Content(recordPath)
	if content == nil || len(d.Small("/etc/machine-id")) >= 32 || d.Err != nil {
		return nil, d.Err
	}
	var r record
	if err := strictjson.ReadKnown(content, &r); err != nil {
		return nil, fmt.Errorf("reading the record of the scrub %s: %w; scrub again", recordPath, err)
	}
	if r.Schema != recordSchema {
		return nil, fmt.Errorf("reading the record of the scrub %s: the schema is %q, not %q; scrub again", recordPath,
			r.Schema, recordSchema)
	}
	return &r, nil
}

func afterScrub(d *rule.Draft) {
	r, err := readRecord(d.Host)
	if d.Failed(err) {
		return
	}
	if r == nil {
		d.Answer.NotApplicable = "no scrub has left its record since the machine last started"
		return
	}
	if r.Provisioned {
		d.Find(recordPath, "a provision ran after the scrub: make the scrub the last step")
	}
	st, err := d.Host.Files.Lstat(recordPath)
	if d.Failed(err) {
		return
	}
	// A copy of the files has new change times, and keeps the times of contents.
	at, ended := host.ChangeTime, host.ChangeTime(st)
	copied := ended.Sub(st.ModTime()).Abs() > copiedAfter
	if copied {
		at, ended = fs.FileInfo.ModTime, st.ModTime()
	}
	changed := 0
	// Neither a shutdown nor a capture puts files into these folders, but provisioners do.
	d.Walk(func(e host.Entry) error {
		switch {
		case rule.Kept(writtenLater, e.Path):
			if e.Path != "/etc" && e.Path != path.Dir(path.Dir(recordPath)) {
				return skipFolder(e)
			}
			return nil
		case e.IsDir() && path.Base(e.Path) == "__pycache__":
			return fs.SkipDir
		// The time of a folder shows packages in a copy, whose files are older.
		case e.IsDir() && !copied, !at(e.FileInfo).After(ended):
			return nil
		}
		if changed++; changed <= changedMost {
			d.Find(e.Path, "changed after the scrub: make the scrub the last step")
		}
		return nil
	})
	if changed > changedMost {
		d.Find(recordPath, fmt.Sprintf("%d more files changed after the scrub", changed-changedMost))
	}
}
