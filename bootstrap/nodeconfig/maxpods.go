package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// The variables of Kubelet.MaxPodsExpression. Amazon's nodeadm has the first
// three.
const (
	// DefaultENIs is the maximum number of interfaces on the default network card.
	DefaultENIs = "default_enis"
	// IPsPerENI is the number of IPv4 addresses of one interface.
	IPsPerENI = "ips_per_eni"
	// MaxPods is the number of pods without an expression.
	MaxPods = "max_pods"
	// VCPUs and PhysicalMemoryMiB are the size of the instance type.
	VCPUs             = "vcpus"
	PhysicalMemoryMiB = "physical_memory_mib"
)

// The limits of an expression and of its evaluation.
const (
	// maxExpression is the maximum length, in bytes.
	maxExpression = 4096
	// maxExpressionCost is the maximum cost of an evaluation, in cel-go's units:
	// about one for each operation and each list element.
	maxExpressionCost = 1_000_000
	// maxEvaluation is the time limit, because some operations have no cost, such as
	// comparing deeply nested lists.
	maxEvaluation = 10 * time.Second
)

func maxPodsVariables() []string {
	return []string{DefaultENIs, IPsPerENI, MaxPods, VCPUs, PhysicalMemoryMiB}
}

// maxPodsEnvironment is nodeadm's environment of expressions: the standard library and
// macros of CEL, and integer variables. Source: amazon-eks-ami, eni_max_pods.go, July
// 2026.
var maxPodsEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(show.Each(maxPodsVariables(), func(name string) cel.EnvOption {
		return cel.Variable(name, cel.IntType)
	})...)
})

// MaxPodsProgram is a compiled Kubelet.MaxPodsExpression.
type MaxPodsProgram struct {
	source  string
	checked *cel.Ast
	program cel.Program
}

// CompileMaxPods compiles the expression. It returns nil for an empty expression.
func (k Kubelet) CompileMaxPods() (*MaxPodsProgram, error) {
	source := k.MaxPodsExpression
	switch {
	case source == "":
		return nil, nil
	case len(source) > maxExpression:
		return nil, fmt.Errorf("compiling the expression: the expression has %d bytes, but at most %d are allowed",
			len(source), maxExpression)
	}
	env, err := maxPodsEnvironment()
	if err != nil {
		return nil, fmt.Errorf("preparing the variables of expressions: %w", err)
	}
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("compiling the expression %s: %w", show.Quote(source, 200),
			compileError(issues.Errors()))
	}
	program, err := env.Program(checked, cel.CostLimit(maxExpressionCost), cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, fmt.Errorf("compiling the expression %s: %w", show.Quote(source, 200), err)
	}
	return &MaxPodsProgram{source, checked, program}, nil
}

// compileError returns the first of the errors, with its position.
func compileError(list []*cel.Error) error {
	if len(list) == 0 {
		return errors.New("cel-go gives no reason")
	}
	message := list[0].Message
	if strings.HasPrefix(message, "undeclared reference to") {
		message = strings.TrimSuffix(message, " (in container '')") + "; the variables are " +
			strings.Join(maxPodsVariables(), ", ")
	}
	return errors.New(position(list[0].Location) + Printable(message))
}

// position returns an error's position, or an empty text if the parser has none.
func position(l common.Location) string {
	if l == nil || l.Line() < 1 || l.Column() < 0 {
		return ""
	}
	return fmt.Sprintf("line %d, column %d: ", l.Line(), l.Column()+1)
}

// AsksForSize reports whether the expression uses the instance type's size, which only
// EC2 supplies.
func (k Kubelet) AsksForSize() bool {
	p, err := k.CompileMaxPods()
	if err != nil || p == nil {
		return false
	}
	for reference := range maps.Values(p.checked.NativeRep().ReferenceMap()) {
		if slices.Contains([]string{VCPUs, PhysicalMemoryMiB}, reference.Name) {
			return true
		}
	}
	return false
}

// Pods evaluates the expression and converts the result to an integer as
// nodeadm does: doubles lose their fraction, and text is read as a number.
func (p *MaxPodsProgram) Pods(values map[string]int64) (int64, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), maxEvaluation,
		fmt.Errorf("no result within %s", maxEvaluation))
	defer cancel()
	pods, err := p.pods(ctx, values)
	if err != nil {
		return 0, fmt.Errorf("evaluating %s with %s: %w", show.Quote(p.source, 200), bindings(values), err)
	}
	return pods, nil
}

func (p *MaxPodsProgram) pods(ctx context.Context, values map[string]int64) (int64, error) {
	input := map[string]any{}
	for name, value := range values {
		input[name] = value
	}
	type result struct {
		pods int64
		err  error
	}
	done := make(chan result, 1)
	go func() { // comparisons of large values cannot be interrupted
		value, _, err := p.program.ContextEval(ctx, input)
		if err != nil {
			done <- result{err: p.evaluationError(err)}
			return
		}
		switch number := value.ConvertToType(types.IntType).(type) {
		case types.Int:
			done <- result{pods: int64(number)}
		default:
			done <- result{err: fmt.Errorf("converting its result: %s", Printable(fmt.Sprint(number)))}
		}
	}()
	select {
	case r := <-done:
		if ctx.Err() != nil && r.err != nil {
			return 0, context.Cause(ctx)
		}
		return r.pods, r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// evaluationError adds where in the expression an evaluation failed.
func (p *MaxPodsProgram) evaluationError(err error) error {
	var at common.Location
	if failed, ok := errors.AsType[*types.Err](err); ok {
		at = p.checked.NativeRep().SourceInfo().GetStartLocation(failed.NodeID())
	}
	return errors.New(position(at) + Printable(err.Error()))
}

func bindings(variables map[string]int64) string {
	list := show.Each(slices.Sorted(maps.Keys(variables)),
		func(name string) string { return fmt.Sprintf("%s=%d", name, variables[name]) })
	return strings.Join(list, ", ")
}
