package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// News is what Compare found.
type News struct {
	// Changes are newer releases, and ends of support that come within 90 days.
	Changes []string
	// Away are the places that did not answer.
	Away []string
}

// Compare compares the table of versions, and that of tools, with the Go module proxy
// and with the publishers. The proxy is the address of a module proxy.
func Compare(ctx context.Context, client *http.Client, proxy string, now time.Time) News {
	c := comparison{client: client, proxy: proxy}
	seen := map[string]bool{} // the first tool of a module is enough
	for _, tool := range Table() {
		if seen[tool.Module] {
			continue
		}
		seen[tool.Module] = true
		if have := lifecycle.Of(tool.Name); len(have) > 0 {
			c.lines(ctx, tool, have)
		} else if known := c.modules(ctx, tool.Module); len(known) > 0 {
			c.newer(tool.Name, tool.Versions[0], known[len(known)-1], tool.Module)
		}
	}
	c.ends(now)
	return c.News
}

type comparison struct {
	News
	client *http.Client
	proxy  string
}

// lines compares the lines of one program with its module and its publisher.
func (c *comparison) lines(ctx context.Context, tool Tool, have []lifecycle.Row) {
	const publisher = "its publisher"
	for place, known := range map[string][]string{tool.Module: c.modules(ctx, tool.Module), publisher: c.published(ctx, tool.Name)} {
		for _, version := range known {
			line := strings.TrimPrefix(semver.MajorMinor("v"+version), "v")
			i := slices.IndexFunc(have, func(r lifecycle.Row) bool { return r.Version == line })
			switch {
			case i >= 0:
				if tool.Name == NameKubelet && place == publisher && have[i].Ends == "" {
					c.add("kubelet %s: EKS has it, and the table has no end of its support", version)
				}
				if last(known, line) == version && have[i].Newest != "" {
					c.newer(tool.Name, have[i].Newest, version, place)
				}
			case semver.Compare("v"+line, "v"+have[0].Version) > 0 && last(known, line) == version:
				c.add("%s %s: the table has no line %s (%s)", tool.Name, version, line, place)
			}
		}
	}
}

// last is the newest version of a line in a sorted list.
func last(known []string, line string) string {
	of := slices.DeleteFunc(slices.Clone(known), func(v string) bool { return !strings.HasPrefix(v, line+".") })
	return of[len(of)-1]
}

func (c *comparison) newer(name, have, known, place string) {
	if semver.Compare("v"+known, "v"+have) > 0 {
		c.add("%s %s: the table has %s (%s)", name, known, have, place)
	}
}

func (c *comparison) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.Changes, text) {
		c.Changes = append(c.Changes, text)
	}
}

// modules lists the releases of a module, the oldest first.
func (c *comparison) modules(ctx context.Context, path string) []string {
	escaped, err := module.EscapePath(path)
	if err == nil {
		var text string
		if text, err = c.get(ctx, c.proxy+"/"+escaped+"/@v/list"); err == nil {
			return releases(strings.Fields(text))
		}
	}
	c.away(path, err)
	return nil
}

// inBucket is a version in the list of EKS' bucket.
var inBucket = regexp.MustCompile(`<Prefix>(\d+\.\d+\.\d+)/</Prefix>`)

// published lists releases of the publisher: EKS for the kubelet, because nodes follow the
// versions of EKS, and GitHub for the others.
func (c *comparison) published(ctx context.Context, id string) []string {
	if id == NameKubelet {
		const bucket = "https://amazon-eks.s3.us-west-2.amazonaws.com/?list-type=2&delimiter=/"
		text, err := c.get(ctx, bucket)
		if err != nil {
			c.away(bucket, err)
			return nil
		}
		found := show.Each(inBucket.FindAllStringSubmatch(text, -1), func(match []string) string { return match[1] })
		return releases(found)
	}
	i := slices.IndexFunc(asset.Table(), func(a asset.Asset) bool { return a.ID == id })
	address := asset.Table()[i].Catalog + "/latest"
	text, err := c.get(ctx, address) // a redirect to the newest release's page
	if err != nil {
		c.away(address, err)
		return nil
	}
	return releases([]string{text})
}

// releases are the releases in a list, without "v", the oldest first.
func releases(list []string) []string {
	var found []string
	for _, v := range list {
		v = "v" + strings.TrimPrefix(v, "v")
		if semver.IsValid(v) && semver.Prerelease(v) == "" && semver.Build(v) == "" {
			found = append(found, v[1:])
		}
	}
	slices.SortFunc(found, func(a, b string) int { return semver.Compare("v"+a, "v"+b) })
	return found
}

func (c *comparison) away(place string, err error) {
	c.Away = append(c.Away, fmt.Sprintf("%s: %s", place, err))
}

// mostList is the size limit of a list, in bytes.
const mostList = 4 << 20

// get returns the text at an address, or the last part of a redirect's address.
func (c *comparison) get(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", err
	}
	client := *c.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if to := response.Header.Get("Location"); to != "" {
		return to[strings.LastIndex(to, "/")+1:], nil
	}
	if response.StatusCode != http.StatusOK {
		return "", errors.New(response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, mostList))
	return string(text), err
}

// ends adds the ends of support within 90 days.
func (c *comparison) ends(now time.Time) {
	today, until := now.UTC().Format(time.DateOnly), now.UTC().AddDate(0, 0, 90).Format(time.DateOnly)
	var soon []lifecycle.Row
	for _, r := range lifecycle.All() {
		if r.Ends >= today && r.Ends <= until {
			soon = append(soon, r)
		}
	}
	slices.SortStableFunc(soon, func(a, b lifecycle.Row) int { return cmp.Compare(a.Ends, b.Ends) })
	for _, r := range soon {
		c.add("%s ends on %s (%s)", r.Of, r.Ends, r.Source)
	}
}
