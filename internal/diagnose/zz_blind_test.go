package diagnose

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

func TestZZBlind(t *testing.T) {
	name := os.Getenv("BLIND")
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	type sc struct{ hit, wrong, unknown int }
	by := map[string]*sc{}
	var all sc
	for _, f := range a.Files {
		head, log, _ := strings.Cut(string(f.Data), "\n\n")
		_, c, _ := strings.Cut(head, "cause: ")
		c, _, _ = strings.Cut(c, "\n")
		one := thread{name: f.Name, log: log, cause: c}
		got := one.first()
		s := by[one.repository()]
		if s == nil {
			s = &sc{}
			by[one.repository()] = s
		}
		switch {
		case got == c:
			s.hit++
			all.hit++
		case got == "unknown":
			s.unknown++
			all.unknown++
			t.Logf("UNKNOWN %-50s want %s", f.Name, c)
		default:
			s.wrong++
			all.wrong++
			t.Logf("WRONG   %-50s want %s got %s", f.Name, c, got)
		}
	}
	for r, s := range by {
		t.Logf("%-50s hit %d wrong %d unknown %d", r, s.hit, s.wrong, s.unknown)
	}
	t.Logf("ALL hit %d wrong %d unknown %d of %d", all.hit, all.wrong, all.unknown, len(a.Files))
}
