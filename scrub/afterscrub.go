package scrub

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
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func afterScrubRules() []Rule {
	return []Rule{
		{
			ID: "after-scrub", Phase: Inspect, Groups: []string{"order"}, Verb: Report,
			Paths: slices.Concat([]string{recordPath}, provisionedFolders), Owner: "a provisioner after eksnode-scrub",
			Why:         "what is made after the scrub is in the image without a scrub; a machine that has started since its scrub is left out",
			Regenerated: "a scrub as the last step", Source: "Packer: provisioners run in the order of the template",
			Find: afterScrub,
		},
	}
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

// provisionedFolders are where provisioners put files, and neither a shutdown nor a
// capture does.
var provisionedFolders = []string{"/etc", "/opt", "/srv", "/usr"}

// writtenLater are files in provisionedFolders that a running machine writes by
// itself, and the folder of the record.
var writtenLater = []string{
	"/etc", "/etc/.pwd.lock", "/etc/.updated", "/etc/adjtime", "/etc/fake-hwclock.data", "/etc/hostname", "/etc/hosts",
	"/etc/lvm", "/etc/machine-id", "/etc/mtab", "/etc/resolv.conf*", path.Dir(recordPath), path.Dir(path.Dir(recordPath)),
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
		since, err := afterScrub(ctx, h)
		if err == nil && since.NotApplicable == "" && len(since.Findings) == 0 {
			return nil
		}
	}
	return errors.Join(h.Files.MkdirAll(path.Dir(recordPath), 0o755), writeRecord(h, record{Schema: recordSchema, Tool: tool}))
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
			err = h.Files.WriteFile(recordPath, append(text, '\n'), host.Attributes{Mode: 0o644, UID: attr.UID, GID: attr.GID})
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
	content, err := h.Content(recordPath)
	if content == nil || err != nil {
		return nil, err
	}
	id, err := regularContent(h, "/etc/machine-id")
	if err != nil || len(id) >= 32 {
		return nil, err
	}
	var r record
	if err := strictjson.ReadKnown(content, &r); err != nil {
		return nil, fmt.Errorf("reading the record of the scrub %s: %w; scrub again", recordPath, err)
	}
	if r.Schema != recordSchema {
		return nil, fmt.Errorf("reading the record of the scrub %s: the schema is %q, not %q; scrub again", recordPath, r.Schema, recordSchema)
	}
	return &r, nil
}

// afterScrub reports a provision and changed files after the scrub.
func afterScrub(ctx context.Context, h *host.Host) (plan.Answer, error) {
	r, err := readRecord(h)
	if err != nil {
		return plan.Answer{}, err
	}
	if r == nil {
		return plan.Answer{NotApplicable: "no scrub has left its record since the machine last started"}, nil
	}
	var answer plan.Answer
	if r.Provisioned {
		answer.Find(recordPath, "a provision ran after the scrub: make the scrub the last step")
	}
	st, err := h.Files.Lstat(recordPath)
	if err != nil {
		return plan.Answer{}, err
	}
	// A copy of the files has new change times, and keeps the times of contents.
	at, ended := host.ChangeTime, host.ChangeTime(st)
	copied := ended.Sub(st.ModTime()).Abs() > copiedAfter
	if copied {
		at, ended = fs.FileInfo.ModTime, st.ModTime()
	}
	changed := 0
	for _, top := range provisionedFolders {
		_, err := h.Files.Walk(ctx, top, top, func(e host.Entry, err error) error {
			switch {
			case err != nil:
				return err
			case kept(writtenLater, e.Path):
				if e.IsDir() && e.Path != "/etc" && e.Path != path.Dir(path.Dir(recordPath)) {
					return fs.SkipDir
				}
				return nil
			case e.IsDir() && path.Base(e.Path) == "__pycache__":
				return fs.SkipDir
			// The time of a folder shows packages in a copy, whose files are older.
			case e.IsDir() && !copied, !at(e.FileInfo).After(ended):
				return nil
			}
			if changed++; changed <= changedMost {
				answer.Find(e.Path, "changed after the scrub: make the scrub the last step")
			}
			return nil
		})
		if err != nil {
			return plan.Answer{}, err
		}
	}
	if changed > changedMost {
		answer.Find(recordPath, fmt.Sprintf("%d more files changed after the scrub", changed-changedMost))
	}
	return answer, nil
}
