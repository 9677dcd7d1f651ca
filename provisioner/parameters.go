package provisioner

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reserved is the parameter with the ports that no connection may use.
const reserved = "net.ipv4.ip_local_reserved_ports"

// numberForm is how the kernel reads a number: decimal, octal or hexadecimal.
var numberForm = regexp.MustCompile(`^-?(0|0[xX][0-9a-fA-F]+|0[0-7]+|[1-9][0-9]*)$`)

// isParameter says whether a name matches one of a row's names.
func isParameter(row []string, name string) bool {
	parts := strings.Split(name, ".")
	matches := func(pattern, part string) bool { return pattern == "*" || pattern == part }
	return slices.ContainsFunc(row, func(name string) bool {
		return slices.EqualFunc(strings.Split(name, "."), parts, matches)
	})
}

// checkParameter refuses a value that a parameter cannot have, and a value with
// which no node works. The kernel judges parameters without a row.
func checkParameter(name, value string) error {
	for _, n := range refusals().Parameters {
		lower := strings.ToLower(name)
		if !isParameter(n.Names, lower) {
			continue
		}
		if !isParameter(n.Names, name) {
			return fmt.Errorf("has no effect, because the kernel's names are in lower case: write %s", lower)
		}
		got, err := n.read(value)
		if err != nil {
			return err
		}
		if n.Count == 1 {
			return checkNeed(name, got[0])
		}
		if n.Count == 2 && got[0] > got[1] {
			return errors.New("ends before it begins")
		}
	}
	if name == reserved {
		return checkReserved(value)
	}
	return nil
}

func (n number) read(value string) ([]int64, error) {
	fields := strings.Fields(value)
	var got []int64
	for _, field := range fields {
		v, err := strconv.ParseInt(field, 0, 64)
		if !numberForm.MatchString(field) || err != nil || v < n.Low || v > n.High {
			fields = nil
		}
		got = append(got, v)
	}
	what := "a whole number"
	if n.Count > 1 {
		what = fmt.Sprintf("%d whole numbers", n.Count)
	}
	if len(fields) != n.Count {
		return nil, fmt.Errorf("is not a valid value: the parameter takes %s from %d to %d", what, n.Low, n.High)
	}
	return got, nil
}

// checkNeed refuses a value with which no node works.
func checkNeed(name string, value int64) error {
	for _, n := range refusals().Needs {
		if !isParameter(n.Names, name) || value >= n.Least && value <= n.Most {
			continue
		}
		wanted := strconv.FormatInt(n.Least, 10)
		if n.Most > n.Least {
			wanted = "at least " + wanted
		}
		return fmt.Errorf("contradicts what a node needs, %s: %s", wanted, n.Why)
	}
	return nil
}

// checkReserved makes sure that a list of reserved ports contains the node's own
// ports. Otherwise another program could take the kubelet's port.
func checkReserved(value string) error {
	has, err := ports(value)
	if err != nil {
		return err
	}
	own, err := ports(nodeSysctls()[reserved])
	if err != nil {
		return err
	}
	for _, port := range slices.Sorted(maps.Keys(own)) {
		if !has[port] {
			return fmt.Errorf("leaves out port %d, which the kubelet, kube-proxy or the VPC CNI listens on; "+
				"add your ports to %s", port, nodeSysctls()[reserved])
		}
	}
	return nil
}

func ports(list string) (map[int]bool, error) {
	all := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || from > to {
			return nil, errors.New("is not a list of ports and ranges such as 2703,9808-9809")
		}
		for port := from; port <= to; port++ {
			all[int(port)] = true
		}
	}
	return all, nil
}
