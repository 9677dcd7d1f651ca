//go:build !agent

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/cluster"
)

// retirement says which images are retired, and how.
type retirement struct {
	keep, days      int
	deregister, yes bool
}

// old picks the images that go: of each kind, those older than the newest ones
// that stay. Images come newest first. What is not available, as it is being made
// or could not be, neither goes nor takes a place among those that stay.
func (r retirement) old(images []cluster.Image, now time.Time) []cluster.Image {
	var list []cluster.Image
	seen := map[string]int{}
	for _, i := range images {
		if i.State != "available" {
			continue
		}
		kind := kindOf(i)
		seen[kind]++
		if seen[kind] > r.keep && now.Sub(i.Created) >= time.Duration(r.days)*24*time.Hour {
			list = append(list, i)
		}
	}
	return list
}

// deprecated says whether an image is, or will be within minutes. Builds may set
// a date that is far away.
func deprecated(i cluster.Image, now time.Time) bool {
	return !i.Deprecated.IsZero() && i.Deprecated.Before(now.Add(5*time.Minute))
}

// kindOf is what images replace one another in.
func kindOf(i cluster.Image) string {
	version := i.Tags[cluster.TagPrefix+"kubernetes-version"]
	if parts := strings.SplitN(version, ".", 3); len(parts) == 3 {
		version = parts[0] + "." + parts[1]
	}
	return i.Tags[cluster.TagPrefix+"distro"] + " " + version + " " + i.Architecture
}

func (f *amiFlags) runRetire(cmd *cobra.Command) error {
	if f.retire.keep < 1 || f.retire.days < 0 {
		return errors.New("--keep must be at least 1, and --older-than at least 0")
	}
	a, err := cluster.Open(cmd.Context(), f.aws)
	if err != nil {
		return err
	}
	images, err := a.OwnImages(cmd.Context())
	if err != nil {
		return err
	}
	now := time.Now()
	p := &printer{w: cmd.OutOrStdout()}
	var errs []error
	count := 0
	for _, i := range f.retire.old(images, now) {
		done, err := f.retireOne(cmd, a, i, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if done != "" {
			p.line("%s %s (%s, made %s)", done, i.ID, i.Name, i.Created.Format(time.DateOnly))
		}
		if !strings.HasPrefix(done, "keep") && done != "" {
			count++
		}
	}
	if f.retire.yes {
		p.line("%d of %d images retired", count, len(images))
	} else {
		p.line("%d of %d images would be retired; --yes does it", count, len(images))
	}
	return errors.Join(append(errs, p.err)...)
}

// retireOne retires an image, or says what would become of it.
func (f *amiFlags) retireOne(cmd *cobra.Command, a *cluster.AWS, i cluster.Image, now time.Time) (done string, err error) {
	if !f.retire.deregister {
		if deprecated(i, now) {
			return "", nil // it is retired already
		}
		if f.retire.yes {
			// EC2 takes whole minutes, in the future.
			err = a.Deprecate(cmd.Context(), i.ID, now.Add(2*time.Minute).Truncate(time.Minute))
		}
		return "deprecate", err
	}
	users, err := a.Users(cmd.Context(), i.ID)
	if err != nil {
		return "", err
	}
	if len(users) > 0 {
		return fmt.Sprintf("keep, as it is used by %s,", strings.Join(users, ", ")), nil
	}
	if f.retire.yes {
		err = a.Deregister(cmd.Context(), i)
	}
	return "deregister", err
}
