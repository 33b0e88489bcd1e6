"""What was checked, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field

from builder.errors import Finding, ImgbuildError


class PreflightFailed(ImgbuildError):
    """One error for all findings; its exit code is that of the first error's family."""

    code = "preflight"
    exit_code = 7


@dataclass(slots=True)
class Preflight:
    """Checks that were made, and their findings: errors stop a build, warnings do not."""

    checks: int = 0
    findings: list[Finding] = field(default_factory=list)
    families: list[type[ImgbuildError]] = field(default_factory=list)

    def check(self, family: type[ImgbuildError], *found: Finding | None) -> None:
        """One check, and what it found, if anything."""
        self.checks += 1
        for finding in found:
            if finding is not None and finding not in self.findings:
                self.findings.append(finding)
                self.families.append(family)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.level == "warning")

    @property
    def exit_code(self) -> int:
        """Of the first error's family; 0 without one."""
        pairs = zip(self.findings, self.families, strict=True)
        return next((kind.exit_code for found, kind in pairs if found.level == "error"), 0)

    def settle(self) -> int:
        """The number of checks. Raises: PreflightFailed, with every finding, for any error."""
        if self.exit_code:
            error = PreflightFailed.of([*self._errors(), *self.warnings])
            error.exit_code = self.exit_code  # type: ignore[misc]
            raise error
        return self.checks

    def _errors(self) -> list[Finding]:
        return [f for f in self.findings if f.level == "error"]
