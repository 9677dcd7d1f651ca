//go:build linux

package amiimport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// partner is an account that AMIs are shared with.
const partner = "210987654321"

// oldSnapshot is the snapshot of the AMI that an import replaces, or the parent.
const oldSnapshot = "snap-00000000000000abc"

// small makes a disk of three blocks, so that a run takes milliseconds.
func small(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.raw")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("block "), 3*ebsdirect.BlockSize/6), 0o600))
	return path
}

// old adds an AMI that an earlier import made.
func old(w *aws.World, name string) error {
	double := w.EBS()
	tags := []ebsdirect.Tag{{Key: "eksnode:distro", Value: "debian"}}
	err := double.Add(ebsdirect.Snapshot{ID: oldSnapshot, Owner: aws.Account, State: ebsdirect.Completed, Size: 1, Tags: tags}, strings.NewReader("old"))
	if name == "" {
		return err
	}
	i := aws.NewImage("ami-00000abc", name, aws.Account, "2026-01-01T00:00:00.000Z")
	i.Region, i.BootMode, i.Devices = aws.Region, "uefi", []aws.Drive{{Name: "/dev/xvda", Snapshot: oldSnapshot, Size: 1, Type: "gp3"}}
	i.Tags, i.Shares = []aws.Tag{{Key: "eksnode:distro", Value: "debian"}}, []aws.Share{{Account: partner}}
	w.Images = append(w.Images, i)
	return err
}

// state is what is in the account, without IDs and times.
func state(w *aws.World) string {
	var lines []string
	double, used := w.EBS(), map[string]bool{}
	content := func(id string) string {
		for s := w.Snapshot(id); s != nil; s = nil {
			return fmt.Sprintf("%s %v %d blocks", w.True(s), s.Tags, len(double.Blocks(id)))
		}
		return "missing"
	}
	for _, i := range w.Images {
		line := fmt.Sprintf("image %s %s %v shared %v until %s", i.Region, i.Name, i.Tags, i.Shares, i.Deprecated)
		for _, d := range i.Devices {
			line += ", " + content(d.Snapshot)
			used[d.Snapshot] = true
		}
		lines = append(lines, line)
	}
	for _, s := range w.AllSnapshots() {
		if !used[s.ID] {
			lines = append(lines, fmt.Sprintf("snapshot %s %s", s.Region, content(s.ID)))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// whole says that an AMI can be had: it is there with its snapshot, or its snapshot is
// there and the records name the snapshot.
func whole(w *aws.World, folder string) error {
	var names []string
	for _, i := range w.Images {
		if i.Region != aws.Region || i.Name != "node" {
			continue
		}
		names = append(names, i.ID)
	}
	if len(names) > 1 {
		return errors.New("two AMIs have the name")
	}
	if len(names) == 1 {
		if s := w.Snapshot(w.Image(names[0]).Devices[0].Snapshot); s == nil || w.True(s) != "completed" {
			return errors.New("the AMI has no completed snapshot")
		}
		return nil
	}
	for _, s := range w.AllSnapshots() {
		if s.Region == aws.Region && w.True(s) == "completed" && recorded(folder, s.ID) {
			return nil
		}
	}
	return errors.New("there is neither an AMI, nor a completed snapshot that the records name")
}

func recorded(folder, text string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*"))
	return slices.ContainsFunc(files, func(name string) bool {
		content, err := os.ReadFile(name)
		return err == nil && bytes.Contains(content, []byte(text)) && !strings.HasSuffix(name, ".sums")
	})
}

// named says that whatever a failed run left is in the records or in its error.
func named(w *aws.World, folder string, failure error) error {
	for _, s := range w.AllSnapshots() {
		used := slices.ContainsFunc(w.Images, func(i *aws.Image) bool { return i.Devices[0].Snapshot == s.ID })
		if s.ID != oldSnapshot && !used && !recorded(folder, s.ID) && !strings.Contains(failure.Error(), s.ID) {
			return fmt.Errorf("a snapshot (%s) is left that no record and no error names", w.True(s))
		}
	}
	for _, i := range w.Images {
		if from := w.Image(i.Source); i.Source != "" && from != nil {
			i = from // the next run finds a copy by its source
		}
		if i.ID != "ami-00000abc" && !recorded(folder, i.Devices[0].Snapshot) && !strings.Contains(failure.Error(), i.ID) {
			return errors.New("an AMI is left that no record and no error names")
		}
	}
	return nil
}

func imports(t *testing.T) []aws.Scenario {
	endpoint.Environment(t, nil)
	disk := small(t)
	var all []aws.Scenario
	for _, one := range []struct {
		name   string
		begin  func(w *aws.World) error
		change func(*amiimport.Spec)
		moment func(*aws.World, string) error
	}{
		{"plain", nil, func(*amiimport.Spec) {}, nil},
		{"shared copies", nil, func(s *amiimport.Spec) {
			s.Regions, s.Users, s.SnapshotUsers, s.DeprecateAt = []string{"us-east-1"}, []string{partner}, []string{partner}, "2030-01-31T00:00:00Z"
		}, nil},
		{"parent", func(w *aws.World) error { return old(w, "") }, func(s *amiimport.Spec) { s.ParentSnapshot = oldSnapshot }, nil},
		{"force", func(w *aws.World) error { return old(w, "node") }, func(s *amiimport.Spec) { s.ForceDeregister = true }, whole},
		{"force and delete", func(w *aws.World) error { return old(w, "node") }, func(s *amiimport.Spec) {
			s.ForceDeregister, s.ForceDeleteSnapshot, s.Users = true, true, []string{partner}
		}, whole},
		{"force with parent and copies", func(w *aws.World) error { return old(w, "node") }, func(s *amiimport.Spec) {
			s.ForceDeregister, s.ForceDeleteSnapshot, s.ParentAMI, s.Regions = true, true, "ami-00000abc", []string{"us-east-1"}
		}, whole},
	} {
		run := func(audit string) func(context.Context, *http.Client, string) error {
			return func(ctx context.Context, client *http.Client, folder string) error {
				i := amiimport.Import{
					Spec: amiimport.Spec{Name: "node", Audit: audit, Architecture: "x86_64", BootMode: "uefi", Tags: map[string]string{"eksnode:distro": "debian"}},
					Disk: disk, Folder: folder, Say: func(string, ...any) {},
					Open: func(ctx context.Context) (*awsapi.AWS, error) {
						return awsapi.Open(ctx, awsapi.Options{HTTP: client, Settle: 1, Pause: 1})
					},
				}
				one.change(&i.Spec)
				_, err := i.Run(ctx)
				return err
			}
		}
		all = append(all, aws.Scenario{
			Name: one.name, State: state, Moment: one.moment, Undone: one.moment == nil, Run: run("off"),
			Refused: run("fail"), // the disk has no file system
			Left: func(w *aws.World, folder string, failure error) error {
				said := failure.Error()
				if strings.Contains(said, "uploads nothing again") && one.moment != nil && w.Image("node") == nil && !strings.Contains(said, "registering the old AMI") {
					return errors.New("the replaced AMI is not registered again")
				}
				return named(w, folder, failure)
			},
			Begin: func(w *aws.World, _ string) error {
				if one.begin == nil {
					return nil
				}
				return one.begin(w)
			},
		})
	}
	return all
}

// Whatever AWS answers, an AMI can be had, and nothing is left that has no name.
func TestImportsKeepTheirPromises(t *testing.T) {
	for _, s := range imports(t) {
		t.Run(s.Name, func(t *testing.T) { s.Sample(t, 7) })
	}
}

// Files without use go, but never the only record of an AMI that is deregistered.
func TestOnlyTheRecordOfAReplacedAMIStays(t *testing.T) {
	plain, folder := imports(t)[0], t.TempDir()
	long := time.Now().AddDate(0, -4, 0)
	for _, suffix := range []string{".journal", ".sums", ".replaced.json"} {
		name := filepath.Join(folder, "old"+suffix)
		require.NoError(t, os.WriteFile(name, []byte("{}"), 0o600))
		require.NoError(t, os.Chtimes(name, long, long))
	}
	require.NoError(t, plain.Run(t.Context(), aws.Light(t, t.TempDir()).Client(nil), folder))
	left, err := filepath.Glob(filepath.Join(folder, "old*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(folder, "old.replaced.json")}, left)
}
