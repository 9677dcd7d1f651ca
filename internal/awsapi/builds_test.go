package awsapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAllBuildsGroupsCopies(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	marks := map[string]string{"eksnode:distro": "debian", "other": "x"}
	image := func(region, id string, made int, change ...func(*Image)) Image {
		i := Image{Region: region, ID: id, Name: id, Owner: "1", Architecture: "x86_64", Created: day(made)}
		for _, c := range change {
			c(&i)
		}
		return i
	}
	of := func(region, id string) func(*Image) { return func(i *Image) { i.SourceRegion, i.Source = region, id } }
	marked := func(name string) func(*Image) { return func(i *Image) { i.Name, i.Tags = name, marks } }
	arm := func(i *Image) { i.Architecture = "arm64" }
	for name, c := range map[string]struct {
		images []Image
		want   [][]string
	}{
		"none":                 {nil, nil},
		"separate":             {[]Image{image("r", "a", 1), image("r", "b", 2)}, [][]string{{"b"}, {"a"}}},
		"a copy":               {[]Image{image("r", "a", 1), image("s", "b", 2, of("r", "a"))}, [][]string{{"b", "a"}}},
		"a copy of a copy":     {[]Image{image("t", "c", 3, of("s", "b")), image("r", "a", 1), image("s", "b", 2, of("r", "a"))}, [][]string{{"c", "b", "a"}}},
		"a source that's gone": {[]Image{image("r", "a", 1, of("r", "x")), image("s", "b", 2, of("r", "x"))}, [][]string{{"b", "a"}}},
		"the same id":          {[]Image{image("r", "a", 1), image("s", "b", 2, of("s", "a"))}, [][]string{{"b"}, {"a"}}},
		"alike":                {[]Image{image("r", "a", 1, marked("n")), image("s", "b", 2, marked("n"))}, [][]string{{"b", "a"}}},
		"alike without marks":  {[]Image{image("r", "a", 1), image("s", "a", 2)}, [][]string{{"a"}, {"a"}}},
		"another name":         {[]Image{image("r", "a", 1, marked("n")), image("s", "b", 2, marked("m"))}, [][]string{{"b"}, {"a"}}},
		"another processor":    {[]Image{image("r", "a", 1, marked("n")), image("s", "b", 2, marked("n"), arm)}, [][]string{{"b"}, {"a"}}},
		"a copy made later": {[]Image{image("r", "a", 1), image("r", "b", 2), image("s", "c", 3, of("r", "a"))},
			[][]string{{"b"}, {"c", "a"}}},
		"sources in a circle": {[]Image{image("r", "a", 1, of("r", "b")), image("r", "b", 2, of("r", "a"))}, [][]string{{"b", "a"}}},
		"undated":             {[]Image{image("r", "a", 1), {Region: "s", ID: "b", Source: "a", SourceRegion: "r"}}, [][]string{{"a", "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got [][]string
			for _, b := range AllBuilds(c.images) {
				var ids []string
				for _, i := range b {
					ids = append(ids, i.ID)
				}
				got = append(got, ids)
			}
			assert.Equal(t, c.want, got)
		})
	}
	builds := NodeBuilds([]Image{image("r", "a", 1, marked("n")), image("s", "b", 2, of("r", "a")), image("r", "c", 3)})
	assert.Len(t, builds, 1, "the build of an untagged copy")
	assert.Equal(t, map[string]string{"distro": "debian"}, builds[0].Marks())
	assert.Equal(t, day(1), builds[0].Made())
}

// Sources come from EC2 and may form any graph.
func FuzzAllBuilds(f *testing.F) {
	f.Add("a>b b>c c>a d>d e>x f>x")
	f.Add("a>a a>b b>a")
	f.Fuzz(func(t *testing.T, graph string) {
		var images []Image
		for n, edge := range strings.Fields(graph) {
			id, source, _ := strings.Cut(edge, ">")
			images = append(images, Image{Region: "r", ID: fmt.Sprint(id, n%3), Source: source, SourceRegion: "r", Tags: map[string]string{"eksnode:x": source}})
		}
		all := AllBuilds(images)
		count := 0
		for _, b := range all {
			assert.NotEmpty(t, b)
			count += len(b)
		}
		assert.Equal(t, len(images), count, "each image is in one build")
	})
}
